"""Going through a tree of any depth with one open descriptor, never over a link or out of the tree.

A path grows with its depth, and so do the descriptors of a recursive walk; hostile code can make a
tree deeper than either allows. A cursor holds only the folder that it is in. It leaves a folder by
``..``, and checks that it arrived where it came from: somebody may have moved the folder meanwhile.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from sandboxed_tools.workspace.openat2 import NO_SYMLINKS, NO_XDEV, openat2, openat2_available

__all__ = ["Entry", "TreeCursor", "TreeMoved", "walk"]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HANDLE: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class TreeMoved(Exception):
    """A folder was moved while the cursor was in it, so there is no way back."""


class TreeCursor:
    """A place in a tree: ``fd`` is the folder that it is in, ``path`` the names that led there.

    Used in a ``with`` block. ``folder_fd`` is duplicated, not taken over. With ``force``, a folder
    of ours whose mode locks us out is opened up while the cursor is in it.
    """

    def __init__(self, folder_fd: int, *, force: bool = False) -> None:
        self.fd = os.open(".", _FOLDER, dir_fd=folder_fd)
        self.path: list[bytes] = []
        self._parents: list[tuple[int, int]] = []
        self._force = force
        self._modes: list[int | None] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self.fd)

    def enter(self, name: bytes) -> None:
        """Go into the folder ``name``.

        Raises:
            OSError: it is no folder (any more), may not be opened, or is another mount.
        """
        here = os.fstat(self.fd)
        mode: int | None = None
        try:
            child = _open_searchable(self.fd, name)
        except PermissionError:
            if not self._force:
                raise
            child, mode = _open_up(self.fd, name)
        os.close(self.fd)
        self._modes.append(mode)
        self.fd = child
        self.path.append(name)
        self._parents.append((here.st_dev, here.st_ino))

    def leave(self) -> None:
        """Go back to where the last ``enter`` came from.

        Raises:
            TreeMoved: the folder is not there any more.
        """
        parent = os.open("..", _FOLDER, dir_fd=self.fd)
        mode = self._modes.pop()
        if mode is not None:
            os.fchmod(self.fd, mode)
        os.close(self.fd)
        self.fd = parent
        found = os.fstat(parent)
        if (found.st_dev, found.st_ino) != self._parents.pop():
            raise TreeMoved
        self.path.pop()

    def names(self) -> list[bytes]:
        """What is in this folder, sorted by bytes."""
        # Through a descriptor of its own: a listing moves the position of the one that it reads.
        listing = os.open(".", _FOLDER, dir_fd=self.fd)
        try:
            return sorted(os.fsencode(name) for name in os.listdir(listing))
        finally:
            os.close(listing)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry on the way: ``path`` from the top, and what the cursor's folder holds there.

    ``left`` is true when a folder is seen for the second time, after all that it holds, and
    ``unreadable`` when what it holds could not be seen.
    """

    path: tuple[bytes, ...]
    info: os.stat_result
    left: bool = False
    unreadable: bool = False

    @property
    def name(self) -> bytes:
        return self.path[-1]

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.info.st_mode)


def walk(cursor: TreeCursor) -> Iterator[Entry]:
    """Every entry below the cursor, each folder before and once more after what it holds.

    When an entry is yielded, the cursor is in the folder that holds it. Entries that vanish are
    left out. Memory is O(depth and width), descriptors are O(1).

    Raises:
        TreeMoved, OSError: from :class:`TreeCursor`.
    """
    # Without the paths of the folders: together they would grow with the square of the depth.
    pending: list[tuple[os.stat_result | None, Iterator[bytes]]] = [(None, iter(cursor.names()))]
    while pending:
        folder, names = pending[-1]
        name = next(names, None)
        if name is None:
            pending.pop()
            if folder is not None:
                path = tuple(cursor.path)
                cursor.leave()
                yield Entry(path, folder, left=True)
            continue
        try:
            info = os.stat(name, dir_fd=cursor.fd, follow_symlinks=False)
        except FileNotFoundError:
            continue
        entry = Entry((*cursor.path, name), info)
        yield entry
        if entry.is_folder:
            try:
                cursor.enter(name)
            except PermissionError:
                yield Entry(entry.path, info, left=True, unreadable=True)
            else:
                pending.append((info, iter(cursor.names())))


def _open_folder(dir_fd: int, name: bytes, flags: int) -> int:
    if openat2_available():
        return openat2(dir_fd, name, flags, resolve=NO_XDEV | NO_SYMLINKS)
    return os.open(name, flags, dir_fd=dir_fd)


def _open_searchable(dir_fd: int, name: bytes) -> int:
    """Open a folder that can be listed and left again; both need a permission of their own."""
    child = _open_folder(dir_fd, name, _FOLDER)
    try:
        os.stat(".", dir_fd=child)
    except OSError:
        os.close(child)
        raise
    return child


def _open_up(dir_fd: int, name: bytes) -> tuple[int, int]:
    """Open a folder in spite of its mode; returns the mode that it must get back."""
    handle = _open_folder(dir_fd, name, _HANDLE)
    try:
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        # By the descriptor: chmod by name would follow a link that was put there meanwhile.
        os.chmod(f"/proc/self/fd/{handle}", mode | 0o700)
        return os.open(".", _FOLDER, dir_fd=handle), mode
    finally:
        os.close(handle)
