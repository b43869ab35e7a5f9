"""A unified diff of lines: what it says is true, and no two texts make it take long."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxed_tools.workspace import line_diff
from sandboxed_tools.workspace.line_diff import unified_lines

RANGE = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n")
MANY = 10_000


def patched(old: list[str], diff: list[str]) -> list[str]:
    """``old`` as a diff changes it; every line of the diff is checked against it."""
    new: list[str] = []
    position = 0
    for line in diff:
        header = RANGE.fullmatch(line)
        if header is not None:
            start = int(header[1]) - (header[2] != "0")
            new += old[position:start]
            position = start
            assert len(new) == int(header[3]) - (header[4] != "0")
        elif line[0] == "+":
            new.append(line[1:])
        else:
            assert old[position] == line[1:]
            position += 1
            new += [line[1:]] if line[0] == " " else []
    return new + old[position:]


def numbers(count: int) -> list[str]:
    return [f"{number}\n" for number in range(count)]


def test_hunks_have_three_lines_around_them() -> None:
    old = numbers(20)
    near = [*old[:4], "x\n", *old[5:11], *old[12:]]
    assert [line.strip() for line in unified_lines(old, near)] == [
        *("@@ -2,14 +2,13 @@", "1", "2", "3", "-4", "+x", "5", "6", "7", "8", "9", "10"),
        *("-11", "12", "13", "14"),
    ]
    far = [*old[:4], "x\n", *old[5:12], *old[13:]]
    assert [line.strip() for line in unified_lines(old, far)] == [
        *("@@ -2,7 +2,7 @@", "1", "2", "3", "-4", "+x", "5", "6", "7"),
        *("@@ -10,7 +10,6 @@", "9", "10", "11", "-12", "13", "14", "15"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "diff"),
    [
        ([], [], []),
        (["a\n"], ["a\n"], []),
        ([], ["a\n"], ["@@ -0,0 +1 @@\n", "+a\n"]),
        (["a\n", "b"], [], ["@@ -1,2 +0,0 @@\n", "-a\n", "-b"]),
        (["a"], ["a\n"], ["@@ -1 +1 @@\n", "-a", "+a\n"]),
    ],
)
def test_ends_and_empty_texts(old: list[str], new: list[str], diff: list[str]) -> None:
    assert list(unified_lines(old, new)) == diff


LINES = st.lists(st.sampled_from("abcdefg"), max_size=30)


@settings(max_examples=300, deadline=None)
@given(LINES, LINES, st.integers(0, 40))
def test_any_diff_turns_one_text_into_the_other(old: list[str], new: list[str], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_diff, "_MAX_COMPARED", most)
        assert patched(old, list(unified_lines(old, new))) == new


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [each for line in lines for each in (f"new {line}", line)],
        lambda lines: [each for line in lines for each in ("x\n", line, line)],
        lambda lines: lines[::-1],
        lambda lines: [f"{int(line) // 2}\n" for line in lines],
        lambda lines: sorted(lines),
        lambda lines: [f"{int(line) % 2}\n" for line in lines],
    ],
    ids=["a line before each", "doubled", "reversed", "pairs", "sorted", "two lines"],
)
def test_texts_that_hold_a_comparison_up_are_answered(
    change: Callable[[list[str]], list[str]],
) -> None:
    old = numbers(MANY)
    new = change(old)
    for before, after in ((old, new), (new, old), (new, new[::-1])):
        assert patched(before, list(unified_lines(before, after))) == after


# Lines that occur once are rare here. Of each thousand two are missing that stand between the same
# two of these, with others between them: only a comparison tells which.
LONG = [f"{number}\n" if number % 10 == 0 else f"{number % 7}\n" for number in range(MANY)]
SHORTENED = [line for number, line in enumerate(LONG) if number % 1000 not in (503, 507)]


def test_few_changes_in_a_long_text_are_few_lines() -> None:
    changed = [line for line in unified_lines(LONG, SHORTENED) if line[0] in "+-"]
    assert len(changed) == 2 * MANY // 1000


def test_what_may_be_compared_is_counted_over_the_whole_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line_diff, "_MAX_COMPARED", 2 * 5 * 3)
    changed = [line for line in unified_lines(LONG, SHORTENED) if line[0] in "+-"]
    # Two places lack two lines; in the others five lines have become three.
    assert len(changed) == 2 * 2 + (MANY // 1000 - 2) * (5 + 3)
