"""What a session has seen of each file, so that nobody overwrites what he has not read."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final, Literal

from sandboxed_tools.workspace.spelling import Parts

__all__ = [
    "FileIdentity",
    "FileState",
    "FileStateCache",
    "LineRange",
    "Newline",
    "content_hash",
]

Newline = Literal["lf", "crlf", "mixed", "none"]
"""How the lines of a file end; ``none`` for a file without a line end."""

LineRange = tuple[int, int]
"""First and last line that were shown, both counted from 1 and included."""

_MAX_RANGES: Final = 256


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Which file it is, and which version: compared to find out whether it has changed."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int

    @classmethod
    def of(cls, info: os.stat_result) -> FileIdentity:
        return cls(info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class FileState:
    """What was seen of one file.

    Attributes:
        content_sha256: of the whole content; ``None`` when only a part was read.
        encoding: ``utf-8``, ``utf-8-sig``, ``utf-16-le``, ``utf-16-be``, ``latin-1``; ``None``
            for binary files.
        ranges: what was shown, merged and sorted; empty when the content was written, not read.
    """

    identity: FileIdentity
    content_sha256: bytes | None = None
    encoding: str | None = None
    newline: Newline = "none"
    ranges: tuple[LineRange, ...] = ()


def content_hash(data: bytes | bytearray) -> bytes:
    """The hash by which contents are compared."""
    return hashlib.sha256(data).digest()


class FileStateCache:
    """The file states of one session, least recently used first out. Safe between threads.

    Keys are true names below the root, for the workspace, or absolute texts for read roots.
    """

    def __init__(self, *, max_bytes: int = 8 * 1024 * 1024) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._states: OrderedDict[Parts | str, FileState] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Parts | str) -> FileState | None:
        """What was seen of a file; ``None`` when nothing was, or it was forgotten."""
        with self._lock:
            state = self._states.get(key)
            if state is not None:
                self._states.move_to_end(key)
            return state

    def saw(self, key: Parts | str, state: FileState) -> None:
        """Remember what was read; ranges add up while the file stays the same."""
        with self._lock:
            known = self._states.get(key)
            if known is not None and known.identity == state.identity:
                state = replace(
                    state,
                    content_sha256=state.content_sha256 or known.content_sha256,
                    ranges=_merged((*known.ranges, *state.ranges)),
                )
            self._put(key, state)

    def wrote(self, key: Parts | str, state: FileState) -> None:
        """Remember a file as it was just written: its whole content is known."""
        with self._lock:
            self._put(key, state)

    def forget(self, key: Parts | str) -> None:
        """Drop what is known of a file, because it was changed by something else."""
        with self._lock:
            state = self._states.pop(key, None)
            if state is not None:
                self._bytes -= _cost(key, state)

    def clear(self) -> None:
        """Forget everything, as after changes that nobody can list."""
        with self._lock:
            self._states.clear()
            self._bytes = 0

    def __len__(self) -> int:
        return len(self._states)

    @property
    def size_bytes(self) -> int:
        """What the cache is accounted with; never above its limit."""
        return self._bytes

    def _put(self, key: Parts | str, state: FileState) -> None:
        old = self._states.pop(key, None)
        if old is not None:
            self._bytes -= _cost(key, old)
        self._states[key] = state
        self._bytes += _cost(key, state)
        while self._bytes > self._max_bytes and self._states:
            oldest, gone = self._states.popitem(last=False)
            self._bytes -= _cost(oldest, gone)


def _cost(key: Parts | str, state: FileState) -> int:
    names = sys.getsizeof(key) + sum(sys.getsizeof(name) for name in key if isinstance(name, bytes))
    return names + 512 + 96 * len(state.ranges)


def _merged(ranges: tuple[LineRange, ...]) -> tuple[LineRange, ...]:
    merged: list[LineRange] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    # What is forgotten here only makes a later answer more careful.
    return tuple(merged[-_MAX_RANGES:])
