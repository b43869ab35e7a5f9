"""Sending a tree, or only what somebody has changed in it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from sandboxed_tools.workspace.carry.stream import (
    CHUNK_BYTES,
    END,
    FILE,
    FOLDER,
    LEAVE,
    LINK,
    SPECIAL,
    SYMLINK,
    Writer,
)
from sandboxed_tools.workspace.copy_tree import data_extents
from sandboxed_tools.workspace.cursor import TreeCursor

__all__ = ["IsKnown", "pack"]

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAX_LINK_BYTES: Final = 4000
"""How long the path of a file may be to which others are linked (PATH_MAX); else it goes twice."""

IsKnown = Callable[[tuple[bytes, ...], os.stat_result], bool]
"""Whether an entry is what the other side has already. Asked for folders, too."""


def pack(top_fd: int, out: Writer, *, is_known: IsKnown | None = None, force: bool = False) -> None:
    """Send what is in the folder behind ``top_fd``; devices are left out. Blocking, O(tree).

    With ``is_known``, what is known is left out, and a folder that is not known is sent with the
    names of all that it holds: what the other side has beside them is to go. ``force`` opens
    folders of ours up that lock us out.

    Raises:
        OSError, TreeMoved: something cannot be read, or somebody is at it.
    """
    with TreeCursor(top_fd, force=force) as cursor:
        _Packer(cursor, out, is_known).run()
    out.put(END)
    out.flush()


@dataclass(slots=True)
class _Level:
    name: bytes
    info: os.stat_result
    left: Iterator[bytes]
    sent: bool = False


@dataclass(slots=True)
class _Packer:
    cursor: TreeCursor
    out: Writer
    is_known: IsKnown | None
    levels: list[_Level] = field(default_factory=list)
    files: int = 0
    links: dict[tuple[int, int], int] = field(default_factory=dict)

    def run(self) -> None:
        self._entered(b"", os.fstat(self.cursor.fd))
        while self.levels:
            name = next(self.levels[-1].left, None)
            if name is None:
                self._leave()
            else:
                self._take(name)

    def _take(self, name: bytes) -> None:
        try:
            info = os.stat(name, dir_fd=self.cursor.fd, follow_symlinks=False)
        except FileNotFoundError:
            return
        if stat.S_ISDIR(info.st_mode):
            self.cursor.enter(name)
            self._entered(name, info)
        elif self.is_known is None or not self.is_known((*self.cursor.path, name), info):
            self._announce()
            self._entry(name, info)

    def _entered(self, name: bytes, info: os.stat_result) -> None:
        names = self.cursor.names()
        self.levels.append(_Level(name, info, iter(names)))
        if self.is_known is None:
            self._announce()
        elif not self.is_known(tuple(self.cursor.path), info):
            self._announce(names)

    def _announce(self, names: list[bytes] | None = None) -> None:
        """Send the folders that we are in, as far as they were not; the last one with names."""
        for level in self.levels:
            if level.sent:
                continue
            level.sent = True
            self.out.put(FOLDER)
            self.out.text(level.name)
            has_listing = names is not None and level is self.levels[-1]
            self.out.number(has_listing, "B")
            if names is not None and has_listing:
                self.out.number(len(names), "I")
                for name in names:
                    self.out.text(name)

    def _leave(self) -> None:
        level = self.levels.pop()
        if self.levels:
            self.cursor.leave()
        if level.sent:
            self.out.put(LEAVE)
            self._facts(level.info)

    def _facts(self, info: os.stat_result) -> None:
        self.out.number(stat.S_IMODE(info.st_mode), "I")
        self.out.number(info.st_mtime_ns, "q")

    def _entry(self, name: bytes, info: os.stat_result) -> None:
        if stat.S_ISREG(info.st_mode):
            self._file(name)
        elif stat.S_ISLNK(info.st_mode):
            target = os.readlink(name, dir_fd=self.cursor.fd)
            self.out.put(SYMLINK)
            self.out.text(name)
            self.out.number(info.st_mtime_ns, "q")
            self.out.text(target)
        elif stat.S_ISFIFO(info.st_mode) or stat.S_ISSOCK(info.st_mode):
            self.out.put(SPECIAL)
            self.out.text(name)
            self.out.number(info.st_mode, "I")

    def _file(self, name: bytes) -> None:
        fd = os.open(name, _READ, dir_fd=self.cursor.fd)
        try:
            info = os.fstat(fd)
            key = (info.st_dev, info.st_ino)
            if key in self.links:
                self.out.put(LINK)
                self.out.text(name)
                self.out.number(self.links[key], "I")
                return
            depth_bytes = sum(map(len, self.cursor.path)) + len(self.cursor.path) + len(name)
            is_linked = info.st_nlink > 1 and depth_bytes < _MAX_LINK_BYTES
            if is_linked:
                self.links[key] = self.files
            self.files += 1
            self.out.put(FILE)
            self.out.text(name)
            self.out.number(is_linked, "B")
            self._facts(info)
            self.out.number(info.st_size)
            self._content(fd, info.st_size)
        finally:
            os.close(fd)

    def _content(self, fd: int, size: int) -> None:
        for start, end in data_extents(fd, size):
            position = start
            while position < end:
                data = os.pread(fd, min(CHUNK_BYTES, end - position), position)
                if not data:
                    break
                self.out.number(position)
                self.out.number(len(data), "I")
                self.out.put(data)
                position += len(data)
        self.out.number(0)
        self.out.number(0, "I")
