"""Operators add programs; nothing that they can write removes a check."""

from __future__ import annotations

import pytest

from sandboxed_tools.bash import Spec, classify, load_specs
from sandboxed_tools.bash.table import TABLE
from sandboxed_tools.errors import ConfigurationError

TOKEI = {"short": "fV", "short_value": "e", "long": ["files"], "long_value": ["exclude"]}


def test_an_added_program_is_read_only_with_its_options_alone() -> None:
    specs = load_specs({"tokei": TOKEI})
    assert not classify("tokei src").read_only
    for command in ("tokei", "tokei src", "tokei -f -e x src", "tokei --exclude x", "ls | tokei -"):
        assert classify(command, extra_specs=specs).read_only, command
    for command in (
        "tokei -o x",
        "tokei --output x",
        "tokei --exc x",
        "tokei $x",
        "tokei *",
        "tokei src > x",
        "./tokei src",
        "tokei +x",
        "tokei @x",
        "X=1 tokei",
    ):
        assert not classify(command, extra_specs=specs).read_only, command


def test_an_added_program_may_be_started_by_another_and_is_still_checked() -> None:
    specs = load_specs({"tokei": TOKEI | {"unknown": "operand"}})
    assert classify("timeout 5 tokei src", extra_specs=specs).read_only
    assert classify("find . -name x -exec tokei {} +", extra_specs=specs).read_only
    assert not classify("ls | xargs tokei", extra_specs=specs).read_only


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_built_in_entry_can_not_be_replaced(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"name|built-in"):
        load_specs({name: {}})


def test_a_spec_given_in_code_does_not_replace_a_built_in_entry_either() -> None:
    anything = Spec(anything=True, unknown="any")
    for name in ("sort", "find", "git", "sed", "eval", "source", "bash", "rm", "sudo"):
        assert not classify(f"{name} -o x --delete", extra_specs={name: anything}).read_only


@pytest.mark.parametrize(
    "data",
    [
        {"rm": {}},
        {"bash": {}},
        {"eval": {}},
        {"sudo": {}},
        {"./x": {}},
        {"a b": {}},
        {"": {}},
        {"-x": {}},
        {"if": {}},
        {"x": {"anything": True}},
        {"x": {"unknown": "any"}},
        {"x": {"short": 7}},
        {"x": {"short": "a b"}},
        {"x": {"short": "-"}},
        {"x": {"long": ["--files"]}},
        {"x": {"long": "files"}},
        {"x": {"max_operands": -1}},
        {"x": {"max_operands": True}},
        {"x": {"colour": "red"}},
        {"x": None},
        {"x": ["short"]},
        {7: {}},
    ],
)
def test_a_spec_that_is_malformed_or_dangerous_is_an_error(data: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        load_specs(data)


def test_the_error_names_the_program_and_the_field() -> None:
    with pytest.raises(ConfigurationError, match=r"tokei\.colour"):
        load_specs({"tokei": {"colour": "red"}})
