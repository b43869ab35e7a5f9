"""Whatever is handed in: a verdict, and never an exception."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bash.bash_corpus import read_rows

from sandboxed_tools.bash import classify, should_run_in_sandbox, split_commands

ROWS = [row.command for row in read_rows("bash_readonly.tsv")]
HOSTILE = "\"'`$\\(){}[]<>|&;#*?~! \t\n/-=@+,.:%^aels01\x00\r\x1b\u00a0\u2028\u202e\ud800é"


class _Odd(str):
    """A text whose own methods can not be trusted."""

    __slots__ = ()

    def __len__(self) -> int:
        raise RuntimeError

    def __str__(self) -> str:
        raise RuntimeError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]


@given(st.one_of(st.text(max_size=300), st.text(alphabet=HOSTILE, max_size=300)))
@settings(max_examples=1500, deadline=None)
def test_no_text_makes_it_raise_and_a_refusal_has_a_reason(text: str) -> None:
    verdict = classify(text, trusted_workspace=True)
    assert verdict.reasons
    assert verdict.read_only == (verdict.reasons[0].code == "read_only")
    for reason in verdict.reasons:
        assert reason.start is not None
        assert reason.end is not None
        assert 0 <= reason.start <= reason.end <= max(len(text), 1)
    assert (split_commands(text) is not None) or not verdict.read_only


@given(st.sampled_from(ROWS), st.data())
@settings(max_examples=1500, deadline=None)
def test_a_damaged_command_makes_nothing_raise(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 5))
    damaged = text[:at] + data.draw(st.text(alphabet=HOSTILE, max_size=4)) + text[at + cut :]
    assert classify(damaged, trusted_workspace=True).reasons


@pytest.mark.parametrize(
    "command",
    [
        None,
        1,
        1.5,
        True,
        b"ls",
        bytearray(b"ls"),
        ["ls"],
        ("ls",),
        {"ls": 1},
        object(),
        classify,
        str,
    ],
)
def test_what_is_not_text_is_refused(command: object) -> None:
    assert [reason.code for reason in classify(command).reasons] == ["not_text"]
    assert split_commands(command) is None


def test_a_text_with_methods_of_its_own_is_judged_by_its_characters() -> None:
    assert classify(_Odd("ls")).read_only
    assert not classify(_Odd("touch x")).read_only


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("", "empty"),
        ("   \n\t", "empty"),
        ("# only a comment", "empty"),
        ("ls\0", "character"),
        ("ls -la\r", "character"),
        ("ls\r\ncat a", "character"),
        ("ls\x0b-la", "character"),
        ("ls\x1b[0m", "character"),
        ("ls\x7f", "character"),
        ("ls\u00a0-la", "character"),
        ("ls\u2028touch x", "character"),
        ("ls \u202ecod", "character"),
        ("ls \ufeff", "character"),
        ("ls \udc80", "character"),
        ("ls \ue000", "character"),
        ("\u0441at a.txt", "command_name"),
        ("x" * 10_001, "too_long"),
        ("x" * 10_000_000, "too_long"),
        ("(" * 20_000, "too_long"),
        ("( " * 4_000, "too_deep"),
        ("$(" * 4_000, "too_deep"),
        ("{ " * 4_000, "too_deep"),
        ("[[ " + "( " * 4_000, "too_deep"),
        ("nice " * 100 + "ls", "too_deep"),
        ("cat " + "a " * 4_000, "too_long"),
        ("ls;" * 3_000, "too_long"),
        ("echo {1..9999}", "expansion"),
        ("echo " + "{a,b}" * 12, "expansion"),
        ('cat "a.txt', "syntax"),
        ("cat 'a.txt", "syntax"),
        ("cat `ls", "syntax"),
        ("cat $(ls", "syntax"),
        ("ls )", "syntax"),
        ("ls &&", "syntax"),
        ("ls |", "syntax"),
        ("| ls", "syntax"),
        ("ls ;; ls", "syntax"),
        ("fi", "syntax"),
        ("cat < 2>&1", "syntax"),
        ("cat <<EOF\nx", "syntax"),
        ("--rcfile x", "unknown_command"),
        ("-c ls", "unknown_command"),
    ],
)
def test_bad_text_is_refused_with_its_reason(command: str, code: str) -> None:
    verdict = classify(command)
    assert not verdict.read_only
    assert verdict.reasons[0].code == code


def test_a_command_that_begins_with_dashes_never_becomes_options_of_bash() -> None:
    for command in ("-i", "--norc", "-c 'touch x'", "--", "-- ls", "-ls"):
        assert not classify(command).read_only


def test_placement_never_raises_either() -> None:
    for command in (None, 7, "", "\udc80", "ls" * 9_000, "$(" * 99):
        assert should_run_in_sandbox(
            command, trusted_workspace=False, workspace=None, read_roots=(), gate_available=True
        )
