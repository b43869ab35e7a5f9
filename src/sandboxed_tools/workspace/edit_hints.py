"""Why a text does not occur in a file, for a model that meant some place in it."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from sandboxed_tools.tool.foreign_text import for_terminal
from sandboxed_tools.workspace.edit_text import Content
from sandboxed_tools.workspace.similar import most_similar

__all__ = ["closest_place"]

_MAX_FILE_BYTES: Final = 1024**2
_MAX_TEXT_CHARS: Final = 100_000
_MAX_COMPARED_LINES: Final = 4000
_MAX_COMPARED_CHARS: Final = 200
_MAX_SHOWN_LINES: Final = 12
_MAX_SHOWN_CHARS: Final = 1500

_NUMBER: Final = re.compile(r"^ *\d+\t", re.MULTILINE)
_LOOKALIKES: Final = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032`\u00b4", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
        **dict.fromkeys("\u00a0\u2007\u202f\u2009", " "),
        "\u2026": "...",
    }
)


def closest_place(content: Content, old: str) -> str:
    """What nearly matches and how it differs, in words, with the true text; empty when nothing.

    Tried in order: line numbers copied from a listing, white space, quotes and dashes that look
    alike, Unicode normalisation, letter case, and last the most similar single line. Bounded in
    time: of long files the first megabyte is looked at.
    """
    if len(old) > _MAX_TEXT_CHARS:
        return ""
    text = content.data[:_MAX_FILE_BYTES].decode(content.codec, "replace").replace("\r\n", "\n")
    old = old.replace("\r\n", "\n")
    stripped = _NUMBER.sub("", old)
    if stripped != old and stripped and stripped in text:
        return "It occurs without the line numbers; leave them out of old_string."
    lines, wanted = text.split("\n"), old.strip("\n").split("\n")
    for why, fold in (
        ("other white space", _without_spaces),
        ("other quotes or dashes", _plain_quotes),
        ("another Unicode normalisation", _normalised),
        ("other letter case", str.casefold),
    ):
        at = _lines_at([fold(line) for line in lines], [fold(line) for line in wanted])
        if at is not None:
            return f"It occurs with {why}, {_shown(lines, at, len(wanted))}"
    at = _most_similar(lines, wanted)
    return "" if at is None else f"The closest place is {_shown(lines, at, len(wanted))}"


def _without_spaces(line: str) -> str:
    return " ".join(line.split())


def _plain_quotes(line: str) -> str:
    return _without_spaces(line.translate(_LOOKALIKES))


def _normalised(line: str) -> str:
    return _plain_quotes(unicodedata.normalize("NFKC", line))


def _lines_at(lines: list[str], wanted: list[str]) -> int | None:
    """Where ``wanted`` occurs: whole lines, or a part of one line."""
    if len(wanted) == 1:
        needle = wanted[0]
        return next((i for i, line in enumerate(lines) if needle and needle in line), None)
    haystack = "\n" + "\n".join(lines) + "\n"
    middle = "\n".join(wanted)
    found = haystack.find(f"\n{middle}\n") if middle.strip() else -1
    return None if found < 0 else haystack.count("\n", 0, found)


def _most_similar(lines: list[str], wanted: list[str]) -> int | None:
    key = max(wanted, key=lambda line: len(line.strip())).strip()[:_MAX_COMPARED_CHARS]
    if len(key) < 3:
        return None
    candidates = {
        line.strip()[:_MAX_COMPARED_CHARS]: index
        for index, line in reversed(list(enumerate(lines[:_MAX_COMPARED_LINES])))
    }
    near = most_similar(key, candidates, at_most=1)
    if not near:
        return None
    offset = next(i for i, line in enumerate(wanted) if line.strip()[:_MAX_COMPARED_CHARS] == key)
    return max(0, candidates[near[0]] - offset)


def _shown(lines: list[str], at: int, count: int) -> str:
    some = "\n".join(lines[at : at + min(count, _MAX_SHOWN_LINES)])[:_MAX_SHOWN_CHARS]
    return f"line {at + 1}:\n{for_terminal(some)}"
