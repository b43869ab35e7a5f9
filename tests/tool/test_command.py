"""Commands: what the kernel would refuse is refused before, with the place that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from sandboxed_tools.errors import InvalidInput
from sandboxed_tools.tool import Command
from sandboxed_tools.tool.command import MAX_ARGUMENT_BYTES, MAX_SCRIPT_BYTES


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"argv": ()}, "argv.0"),
        ({"argv": ("",)}, "argv.0"),
        ({"argv": ("a", "b\0c")}, "argv.1"),
        ({"argv": ("a", "x" * (MAX_ARGUMENT_BYTES + 1))}, "argv.1"),
        ({"argv": ("a", "\ud800")}, "argv.1"),
        ({"argv": ("a",), "env": {"A": "\0"}}, "env.A"),
        ({"argv": ("a",), "env": {"A=B": "c"}}, "env.A=B"),
        ({"argv": ("a",), "env": {"": "c"}}, "env."),
        ({"argv": ("a",), "env": {"A": "x" * MAX_ARGUMENT_BYTES}}, "env.A"),
        ({"argv": ("a", *["x" * 100_000] * 11)}, "argv"),
        ({"argv": ("a",), "cwd": "/\0"}, "cwd"),
        ({"argv": ("a",), "script": b"x" * (MAX_SCRIPT_BYTES + 1)}, "script"),
    ],
)
def test_what_cannot_be_executed_is_refused_with_the_place(
    options: dict[str, Any], place: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        Command(**options)
    assert place in [field.path for field in caught.value.fields]


def test_undecodable_bytes_travel_as_surrogates_and_the_longest_argument_is_taken() -> None:
    command = Command(("a", "\udcff", "x" * MAX_ARGUMENT_BYTES), env={"A": "\udc80"})
    assert command.env["A"] == "\udc80"


def test_a_command_is_immutable() -> None:
    environment = {"A": "1"}
    command = Command(["a"], env=environment)  # type: ignore[arg-type]
    environment["A"] = "2"
    assert command.argv == ("a",)
    assert command.env["A"] == "1"
    with pytest.raises(TypeError):
        command.env["A"] = "3"  # type: ignore[index]
