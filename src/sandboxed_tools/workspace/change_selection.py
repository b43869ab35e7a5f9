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

    chosen = _Matcher(only) if only else None
    left_out = _Matcher(excluding) if excluding else None

    def is_chosen(path: bytes) -> bool:
        if chosen is not None and not chosen.matches(path):
            return False
        return left_out is None or not left_out.matches(path)

    return is_chosen


class _Matcher:
    """Whether a path or a folder above it matches; what is known of the folders is kept."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._patterns = [pattern.strip("/") for pattern in patterns]
        self._folders: dict[str, bool] = {"": False}

    def matches(self, path: bytes) -> bool:
        text = os.fsdecode(path)
        unknown: list[str] = []
        while text not in self._folders:
            unknown.append(text)
            text = text.rpartition("/")[0]
        found = self._folders[text]
        for name in reversed(unknown):
            found = found or any(
                glob.globmatch(name, pattern, flags=_GLOB) for pattern in self._patterns
            )
            self._folders[name] = found
        return found
