"""Choosing paths of a change set by patterns."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import Final

import bracex
from wcmatch import glob

from sandboxed_tools.errors import FieldError, InvalidInput
from sandboxed_tools.tool.foreign_text import for_terminal

__all__ = ["selection"]

_GLOB: Final = glob.GLOBSTAR | glob.DOTGLOB | glob.EXTGLOB | glob.FORCEUNIX
_MAX_ALTERNATIVES: Final = 1000
_WILDCARD: Final = re.compile(r"[*?\[{(\\]")


def selection(
    paths: Iterable[bytes], *, only: tuple[str, ...] = (), excluding: tuple[str, ...] = ()
) -> Callable[[bytes], bool]:
    """Which of a set's paths patterns choose: those of ``only`` (all, without any), less
    ``excluding``.

    A pattern is a glob over the path in the workspace (``*``, ``**``, ``{a,b}``), or such a path as
    it is, whatever characters it has. It chooses what is below a folder with the folder. A path
    whose folder is needed brings that along.

    Raises:
        InvalidInput: to leave out is a path that the set does not have, which can only be a mistake
            that leaves something in; a pattern with over 1000 alternatives.
    """
    chosen = _Matcher(only) if only else None
    left_out = _Matcher(excluding) if excluding else None
    if left_out is not None:
        left_out.check(paths)

    def is_chosen(path: bytes) -> bool:
        if chosen is not None and not chosen.matches(path):
            return False
        return left_out is None or not left_out.matches(path)

    return is_chosen


class _Matcher:
    """Whether a path or a folder above it matches; what is known of the folders is kept."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._patterns = [_spelled(pattern) for pattern in patterns]
        self._globs = [each for pattern in self._patterns for each in _alternatives(pattern)]
        self._folders: dict[str, bool] = {"": False}

    def check(self, paths: Iterable[bytes]) -> None:
        """Refuse a path that is none of these, nor a folder of theirs."""
        for path in paths:
            self.matches(path)
        for pattern in self._patterns:
            if pattern not in self._folders and not _WILDCARD.search(pattern):
                name = for_terminal(pattern, one_line=True)
                words = f"The change set has no {name!r}; name a path as 'changes show' does."
                raise _refused(words, "missing")

    def matches(self, path: bytes) -> bool:
        text = os.fsdecode(path)
        unknown: list[str] = []
        while text not in self._folders:
            unknown.append(text)
            text = text.rpartition("/")[0]
        found = self._folders[text]
        for name in reversed(unknown):
            found = (
                found
                or name in self._patterns
                or any(glob.globmatch(name, each, flags=_GLOB) for each in self._globs)
            )
            self._folders[name] = found
        return found


def _spelled(pattern: str) -> str:
    """As the paths of a set are spelled: without a dot in front, or a slash at the end."""
    text = pattern.removeprefix("./").strip("/")
    return "**" if text in ("", ".") else text


def _alternatives(pattern: str) -> list[str]:
    try:
        return list(bracex.iexpand(pattern, keep_escapes=True, limit=_MAX_ALTERNATIVES))
    except bracex.ExpansionLimitException as error:
        words = f"A pattern has more than {_MAX_ALTERNATIVES} alternatives."
        raise _refused(words, "too_many") from error


def _refused(words: str, code: str) -> InvalidInput:
    return InvalidInput(words, fields=(FieldError("pattern", words, code),))
