"""Choosing paths of a change set by patterns."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from wcmatch import glob

__all__ = ["selection"]

_GLOB: Final = glob.GLOBSTAR | glob.BRACE | glob.DOTGLOB | glob.EXTGLOB | glob.FORCEUNIX


def selection(
    only: tuple[str, ...] = (), excluding: tuple[str, ...] = ()
) -> Callable[[bytes], bool]:
    """Which paths patterns choose: those of ``only`` (all, without any), less ``excluding``.

    A pattern is a glob over the path in the workspace (``*``, ``**``, ``{a,b}``), and chooses what
    is below a folder with the folder. A path whose folder is needed brings that along.
    """

    def matches(path: bytes, patterns: tuple[str, ...]) -> bool:
        text = os.fsdecode(path)
        names = text.split("/")
        candidates = ["/".join(names[:end]) for end in range(1, len(names) + 1)]
        return any(
            glob.globmatch(candidate, pattern.strip("/"), flags=_GLOB)
            for candidate in candidates
            for pattern in patterns
        )

    return lambda path: (not only or matches(path, only)) and not matches(path, excluding)
