"""A unified diff of any two texts, in time that no text can stretch.

``difflib`` alone takes the square of the number of lines, or worse: a file with a new line between
any two would hold whoever looks at it up for minutes. Here lines that both texts have exactly once
are matched first (patience diff), and only what is left between them is compared each with each, as
long as there is not too much of it. What is too much is shown as replaced whole.
"""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["unified_lines"]

_CONTEXT: Final = 3
_MAX_COMPARED: Final = 4_000_000
"""Pairs of lines, in all: the worst that we found takes half a second for them."""


class _Difference(NamedTuple):
    """``old[old_start:old_end]`` has become ``new[new_start:new_end]``."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int

    @property
    def pairs(self) -> int:
        return (self.old_end - self.old_start) * (self.new_end - self.new_start)


def unified_lines(old: list[str], new: list[str]) -> Iterator[str]:
    """The hunks of a unified diff with three lines of context; each line with its line end."""
    hunk: list[_Difference] = []
    for each in _differences(old, new):
        if hunk and each.old_start - hunk[-1].old_end > 2 * _CONTEXT:
            yield from _hunk(old, new, hunk)
            hunk = []
        hunk.append(each)
    if hunk:
        yield from _hunk(old, new, hunk)


def _hunk(old: list[str], new: list[str], differences: list[_Difference]) -> Iterator[str]:
    first, last = differences[0], differences[-1]
    before = min(_CONTEXT, first.old_start)
    after = min(_CONTEXT, len(old) - last.old_end)
    ranges = (
        _range(first.old_start - before, last.old_end + after),
        _range(first.new_start - before, last.new_end + after),
    )
    yield f"@@ -{ranges[0]} +{ranges[1]} @@\n"
    position = first.old_start - before
    for each in differences:
        yield from (f" {line}" for line in old[position : each.old_start])
        yield from (f"-{line}" for line in old[each.old_start : each.old_end])
        yield from (f"+{line}" for line in new[each.new_start : each.new_end])
        position = each.old_end
    yield from (f" {line}" for line in old[position : position + after])


def _range(start: int, end: int) -> str:
    count = end - start
    if count == 1:
        return str(start + 1)
    # An empty range stands behind the line before it.
    return f"{start + 1 if count else start},{count}"


def _differences(old: list[str], new: list[str]) -> Iterator[_Difference]:
    left = _MAX_COMPARED
    for gap in _gaps(old, new, _Difference(0, len(old), 0, len(new))):
        if gap.pairs > left:
            yield gap
        else:
            left -= gap.pairs
            yield from _compared(old, new, gap)


def _gaps(old: list[str], new: list[str], whole: _Difference) -> Iterator[_Difference]:
    """What is left between the lines that both have once, without what is the same at its ends."""
    whole = _trimmed(old, new, whole)
    old_at, new_at = whole.old_start, whole.new_start
    for old_line, new_line in [*_anchors(old, new, whole), (whole.old_end, whole.new_end)]:
        gap = _trimmed(old, new, _Difference(old_at, old_line, new_at, new_line))
        if gap.old_start < gap.old_end or gap.new_start < gap.new_end:
            yield gap
        old_at, new_at = old_line + 1, new_line + 1


def _trimmed(old: list[str], new: list[str], within: _Difference) -> _Difference:
    old_start, old_end, new_start, new_end = within
    while old_start < old_end and new_start < new_end and old[old_start] == new[new_start]:
        old_start, new_start = old_start + 1, new_start + 1
    while old_start < old_end and new_start < new_end and old[old_end - 1] == new[new_end - 1]:
        old_end, new_end = old_end - 1, new_end - 1
    return _Difference(old_start, old_end, new_start, new_end)


def _anchors(old: list[str], new: list[str], within: _Difference) -> list[tuple[int, int]]:
    """The most pairs of lines, in both orders, that each text has once in this part."""
    old_part = old[within.old_start : within.old_end]
    new_part = new[within.new_start : within.new_end]
    old_counts, new_counts = Counter(old_part), Counter(new_part)
    place = {line: index for index, line in enumerate(new_part) if new_counts[line] == 1}
    pairs = [
        (within.old_start + index, within.new_start + place[line])
        for index, line in enumerate(old_part)
        if old_counts[line] == 1 and line in place
    ]
    return _longest_rising(pairs)


def _longest_rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest choice of pairs whose second numbers rise as their first ones do."""
    ends: list[int] = []  # the lowest second number with which a choice of each length ends,
    chosen: list[int] = []  # and the pair that it belongs to
    before: list[int] = []
    for index, (_, second) in enumerate(pairs):
        length = bisect_left(ends, second)
        before.append(chosen[length - 1] if length else -1)
        ends[length : length + 1] = [second]
        chosen[length : length + 1] = [index]
    found: list[tuple[int, int]] = []
    index = chosen[-1] if chosen else -1
    while index >= 0:
        found.append(pairs[index])
        index = before[index]
    return found[::-1]


def _compared(old: list[str], new: list[str], gap: _Difference) -> Iterator[_Difference]:
    matcher = difflib.SequenceMatcher(
        None,
        old[gap.old_start : gap.old_end],
        new[gap.new_start : gap.new_end],
        autojunk=False,
    )
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if tag != "equal":
            yield _Difference(
                gap.old_start + old_start,
                gap.old_start + old_end,
                gap.new_start + new_start,
                gap.new_start + new_end,
            )
