"""The labelled commands that the tests of the verdict share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["Row", "read_rows"]

_DATA = Path(__file__).parent.parent / "data"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}


@dataclass(frozen=True, slots=True)
class Row:
    """A command and whether it only reads, by its real effect."""

    read_only: bool
    command: str
    why: str
    category: str


@cache
def read_rows(name: str) -> tuple[Row, ...]:
    """The rows of a corpus file; commands may hold U+2028, so lines end at a newline only."""
    rows = []
    for line in (_DATA / name).read_text(encoding="utf-8").split("\n"):
        if not line or line.startswith("#"):
            continue
        label, command, why, _, category = line.split("\t")
        text = re.sub(r"\\(.)", lambda match: _ESCAPES[match[1]], command)
        rows.append(Row(label == "ro", text, why, category))
    return tuple(rows)
