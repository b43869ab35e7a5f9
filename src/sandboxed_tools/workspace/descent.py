"""The folders of a tree, one open at a time, however deep they lie below each other.

A path of a few names costs one system call from the top. A deep one costs its depth, and the paths
of a deep tree together the square of it. So a descent remembers which folders it came through, by
device and inode, goes up by ``..`` to one that is on the way to the next path, and sees that it
arrived there. Where it did not, somebody moved a folder, and it starts at the top again.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from types import TracebackType
from typing import Final, NamedTuple, Self

from sandboxed_tools.workspace.confined import ConfinedTree
from sandboxed_tools.workspace.spelling import shared_length

__all__ = ["Descent"]

_STRIDE: Final = 16
"""A folder is remembered every so many names; shorter paths are always opened from the top."""

_UP: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_UP: Final = 1300
"""``../`` so many times stays below PATH_MAX (4096)."""


class _Passed(NamedTuple):
    """A folder on the way: which it is, and where its name ends in the path."""

    identity: tuple[int, int]
    end: int


class Descent:
    """One folder of ``tree`` at a time. Used in a ``with`` block; not for several threads."""

    def __init__(self, tree: ConfinedTree) -> None:
        self._tree = tree
        self._path: bytes | None = None
        self._fd = -1
        self._depth = 0
        # After _STRIDE names, after twice as many, …
        self._passed: list[_Passed] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the open folder."""
        if self._path is not None:
            self._path = None
            os.close(self._fd)

    def at(self, path: bytes) -> int:
        """A descriptor of the folder at a path, to list it; valid until the next is asked for.

        No link is followed and no mount entered. After an error the last folder is still open.

        Raises:
            OSError: as :meth:`ConfinedTree.open_listing`.
        """
        if path == self._path:
            return self._fd
        passed = self._still_passed(path)
        fd, depth = self._open(path, passed)
        self.close()
        self._path, self._fd, self._depth, self._passed = path, fd, depth, passed
        return fd

    def _still_passed(self, path: bytes) -> list[_Passed]:
        """The remembered folders that are on the way to ``path``, too."""
        if self._path is None or not self._passed:
            return []
        end = min(shared_length(self._path, path), len(path) - 1)
        return self._passed[: bisect_right(self._passed, end, key=lambda folder: folder.end)]

    def _open(self, path: bytes, passed: list[_Passed]) -> tuple[int, int]:
        """Open a folder and remember in ``passed`` what it came through; its depth, too."""
        depth = path.count(b"/") + 1 if path else 0
        if depth < _STRIDE:
            return self._tree.open_listing(tuple(path.split(b"/")) if path else ()), depth
        here, end, above = self._start(path, passed)
        names = path[end:].split(b"/")
        try:
            while len(names) > (count := _STRIDE - above % _STRIDE):
                ahead, names = names[:count], names[count:]
                child = self._from(here).open_passage(tuple(ahead))
                os.close(here)
                here = child
                above += count
                end += sum(map(len, ahead)) + count
                passed.append(_Passed(_identity(here), end))
            fd = self._from(here).open_listing(tuple(names))
        finally:
            os.close(here)
        if depth % _STRIDE == 0:
            passed.append(_Passed(_identity(fd), len(path) + 1))
        return fd, depth

    def _start(self, path: bytes, passed: list[_Passed]) -> tuple[int, int, int]:
        """Where to go on from: a descriptor, where its path ends in ``path``, and its depth."""
        if passed:
            assert self._path is not None
            if path.startswith(self._path + b"/"):
                return os.dup(self._fd), len(self._path) + 1, self._depth
            here = self._climb(passed)
            if here is not None:
                return here, passed[-1].end, len(passed) * _STRIDE
            passed.clear()
        return os.dup(self._tree.fd), 0, 0

    def _from(self, fd: int) -> ConfinedTree:
        tree = self._tree
        return ConfinedTree(fd, tree.text, tree.spelled, tree.use_openat2)

    def _climb(self, passed: list[_Passed]) -> int | None:
        """Go up to the last folder of ``passed``; ``None`` where it is not above any more."""
        ups = self._depth - len(passed) * _STRIDE
        if ups > _MAX_UP:
            return None
        try:
            fd = os.open(b"../" * ups, _UP, dir_fd=self._fd)
        except OSError:
            return None
        if _identity(fd) == passed[-1].identity:
            return fd
        os.close(fd)
        return None


def _identity(fd: int) -> tuple[int, int]:
    info = os.fstat(fd)
    return info.st_dev, info.st_ino
