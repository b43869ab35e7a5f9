"""The most similar of some texts, within a time limit."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable
from typing import Final

__all__ = ["most_similar"]

_WALL_S: Final = 0.3
_MAX_CHARS: Final = 200
_CUTOFF: Final = 0.6


def most_similar(text: str, candidates: Iterable[str], *, at_most: int) -> list[str]:
    """The candidates that are alike, the most similar first, of those that there was time for.

    ``difflib.get_close_matches`` has no limit: four thousand lines of one letter hold it for most
    of a minute.
    """
    deadline = time.monotonic() + _WALL_S
    matcher = difflib.SequenceMatcher(b=text[:_MAX_CHARS], autojunk=False)
    scored: list[tuple[float, str]] = []
    for candidate in candidates:
        matcher.set_seq1(candidate[:_MAX_CHARS])
        if matcher.real_quick_ratio() >= _CUTOFF and matcher.quick_ratio() >= _CUTOFF:
            ratio = matcher.ratio()
            if ratio >= _CUTOFF:
                scored.append((ratio, candidate))
        if time.monotonic() > deadline:
            break
    scored.sort(key=lambda each: (-each[0], each[1]))
    return [candidate for _, candidate in scored[:at_most]]
