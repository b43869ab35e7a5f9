"""A unified diff of replacements whose places are known, whatever the size of the file."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Replacement", "diff_of", "replacement_between"]

_CONTEXT_LINES: Final = 3
_MAX_HUNKS: Final = 30
_MAX_COMPARED_LINES: Final = 200
_MAX_COMPARED_BYTES: Final = 256 * 1024
_MAX_SHOWN_LINES: Final = 200
_MAX_LINE_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class Replacement:
    """``old[start:end]`` was replaced with ``new``."""

    start: int
    end: int
    new: bytes


def replacement_between(old: bytes, new: bytes) -> list[Replacement]:
    """The one replacement of whole lines that turns ``old`` into ``new``; empty when equal."""
    if old == new:
        return []
    start = old.rfind(b"\n", 0, _common(old, new)) + 1
    rest_old, rest_new = old[start:], new[start:]
    tail = _common(rest_old[::-1], rest_new[::-1])
    # The end of a common tail may be in the middle of a line: begin it behind a line feed.
    feed = rest_old.find(b"\n", len(rest_old) - tail) if tail else -1
    keep = len(rest_old) - feed - 1 if feed >= 0 else 0
    return [Replacement(start, len(old) - keep, rest_new[: len(rest_new) - keep])]


def _common(one: bytes, other: bytes) -> int:
    """Length of the common prefix, by halving: comparing slices is done in C."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while low < high - 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


def diff_of(
    old: bytes, replacements: Sequence[Replacement], *, codec: str, from_name: str, to_name: str
) -> str:
    """The diff of replacements that are in order and do not overlap.

    Bounded: at most 30 hunks of 200 lines of 500 characters, and marks where something was left
    out. Undecodable bytes and line ends are shown as they decode; a missing one at the end is said.
    """
    hunks = _grouped(old, replacements)
    lines = [f"--- {from_name}", f"+++ {to_name}"]
    line, position, shift = 1, 0, 0
    for hunk in hunks[:_MAX_HUNKS]:
        line += old.count(b"\n", position, hunk.start)
        position = hunk.start
        before, after = old[hunk.start : hunk.end], hunk.new
        sizes = _line_count(before), _line_count(after)
        header = f"@@ -{_range(line, sizes[0])} +{_range(line + shift, sizes[1])} @@"
        lines += [header, *_shortened(_body(_split(before, codec), _split(after, codec)))]
        shift += sizes[1] - sizes[0]
    if len(hunks) > _MAX_HUNKS:
        lines.append(f"[… {len(hunks) - _MAX_HUNKS} more places changed …]")
    return "\n".join(lines)


def _range(line: int, count: int) -> str:
    return f"{line if count else line - 1},{count}"


def _grouped(old: bytes, replacements: Sequence[Replacement]) -> list[Replacement]:
    """Replacements with whole lines and context around them, near ones taken together."""
    groups: list[tuple[int, int, list[Replacement]]] = []
    for each in replacements:
        if len(groups) > _MAX_HUNKS and each.start > groups[-1][1]:
            groups.append((each.start, each.end, []))
            continue
        start, end = _context_start(old, each.start), _context_end(old, each.end)
        if groups and start <= groups[-1][1]:
            first, last, inside = groups[-1]
            groups[-1] = (first, max(last, end), [*inside, each])
        else:
            groups.append((start, end, [each]))
    return [
        Replacement(start, end, _applied(old, start, end, group)) for start, end, group in groups
    ]


def _applied(old: bytes, start: int, end: int, group: list[Replacement]) -> bytes:
    pieces: list[bytes] = []
    position = start
    for each in group:
        pieces += (old[position : each.start], each.new)
        position = each.end
    return b"".join([*pieces, old[position:end]])


def _context_start(old: bytes, position: int) -> int:
    for _ in range(_CONTEXT_LINES + 1):
        position = old.rfind(b"\n", 0, position)
        if position < 0:
            return 0
    return position + 1


def _context_end(old: bytes, position: int) -> int:
    for _ in range(_CONTEXT_LINES + 1):
        feed = old.find(b"\n", position)
        if feed < 0:
            return len(old)
        position = feed + 1
    return position


def _line_count(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def _split(data: bytes, codec: str) -> list[str]:
    if len(data) > _MAX_COMPARED_BYTES:
        # Enough for what is shown of it in the end.
        half = _MAX_COMPARED_BYTES // 2
        cut = len(data) - 2 * half
        data = b"%b\n[... %d bytes ...]\n%b" % (data[:half], cut, data[-half:])
    lines = data.decode(codec, "backslashreplace").split("\n")
    if lines[-1] == "":
        lines.pop()
    else:
        lines[-1] += "\n\\ No newline at end of file" if data else ""
    return lines


def _body(before: list[str], after: list[str]) -> list[str]:
    if max(len(before), len(after)) > _MAX_COMPARED_LINES:
        return [*(f"-{line}" for line in before), *(f"+{line}" for line in after)]
    body: list[str] = []
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            body += (f" {line}" for line in before[i1:i2])
        else:
            body += (f"-{line}" for line in before[i1:i2])
            body += (f"+{line}" for line in after[j1:j2])
    return body


def _shortened(body: list[str]) -> list[str]:
    if len(body) > _MAX_SHOWN_LINES:
        half = _MAX_SHOWN_LINES // 2
        body = [*body[:half], f"[… {len(body) - 2 * half} lines …]", *body[-half:]]
    return [
        line
        if len(line) <= _MAX_LINE_CHARS
        else f"{line[:_MAX_LINE_CHARS]} [… {len(line) - _MAX_LINE_CHARS} more …]"
        for line in body
    ]
