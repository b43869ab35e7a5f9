"""Receiving a tree, or what was changed in one, from a stream that nobody vouches for.

Everything is done below one open folder, with names of one component, through descriptors that are
opened without following links. No name may come twice in a folder, so nothing that came can be
replaced by a link and then be passed through. What it all may come to is bounded beforehand.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sandboxed_tools.workspace.carry.stream import (
    CHUNK_BYTES,
    END,
    FILE,
    FOLDER,
    LEAVE,
    LINK,
    MAX_TARGET_BYTES,
    SPECIAL,
    SYMLINK,
    BadStream,
    Reader,
)
from sandboxed_tools.workspace.cursor import TreeCursor
from sandboxed_tools.workspace.remove import remove_tree

__all__ = ["Budget", "OverBudget", "unpack"]

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_HANDLE: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_RECORD_BYTES: Final = 32
_MAX_SIZE: Final = 2**63 - 1
_MAX_DEPTH: Final = 20_000


class OverBudget(Exception):
    """More came than may come."""


@dataclass(slots=True)
class Budget:
    """What may still come: entries, bytes of content, and names in listings of folders."""

    entries: int
    content_bytes: int
    listed: int

    def entry(self) -> None:
        self.entries -= 1
        self.content(_RECORD_BYTES)
        if self.entries < 0:
            raise OverBudget("more entries than may change")

    def content(self, count: int) -> None:
        self.content_bytes -= count
        if self.content_bytes < 0:
            raise OverBudget("more bytes than may change")

    def listing(self, count: int) -> None:
        self.listed -= count
        if self.listed < 0:
            raise OverBudget("longer listings of folders than there can be")


def unpack(
    reader: Reader,
    top_fd: int,
    *,
    budget: Budget,
    owner: tuple[int, int] | None = None,
    is_empty: bool = False,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Make the tree behind ``top_fd``, which nobody else uses, into what the stream says.

    What the stream does not speak of stays. Everything that comes belongs to ``owner``, to us
    without one. The top of a tree that ``is_empty`` takes its mode and time from the stream, too.
    ``check`` is called now and then, and may raise. Blocking.

    Raises:
        BadStream: it is no such stream; the tree then has some of it.
        OverBudget: so is it then.
        OSError, TreeMoved: the tree cannot be written to.
    """
    with TreeCursor(top_fd, force=True) as cursor:
        _Unpacker(reader, cursor, top_fd, budget, owner, check).run(is_empty=is_empty)


@dataclass(slots=True)
class _Level:
    is_new: bool
    listing: frozenset[bytes] | None
    seen: set[bytes] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Linked:
    path: tuple[bytes, ...]
    inode: int


@dataclass(slots=True)
class _Unpacker:
    reader: Reader
    cursor: TreeCursor
    top_fd: int
    budget: Budget
    owner: tuple[int, int] | None
    check: Callable[[], None]
    levels: list[_Level] = field(default_factory=list)
    files: int = 0
    linked: dict[int, _Linked] = field(default_factory=dict)

    def run(self, *, is_empty: bool) -> None:
        if not self._begin(is_empty=is_empty):
            return
        takers = {
            FOLDER: self._folder,
            LEAVE: self._leave,
            FILE: self._file,
            LINK: self._link,
            SYMLINK: self._symlink,
            SPECIAL: self._special,
        }
        while self.levels:
            taker = takers.get(self.reader.kind())
            if taker is None:
                raise BadStream("a record that there is not, or that may not come here")
            taker()
            self.check()
        if self.reader.kind() != END:
            raise BadStream("more after the last folder was left")

    def _begin(self, *, is_empty: bool) -> bool:
        """Enter the top folder; ``False`` when nothing comes at all."""
        kind = self.reader.kind()
        if kind == END:
            return False
        if kind != FOLDER or self.reader.number("H") != 0:
            raise BadStream("it does not begin with the top folder")
        self._enter(is_new=is_empty)
        return True

    def _folder(self) -> None:
        if len(self.levels) > _MAX_DEPTH:
            raise BadStream("folders below each other without an end")
        name, found = self._claim()
        is_new = found is None or not stat.S_ISDIR(found.st_mode)
        if is_new:
            self._make_way(name, found)
            os.mkdir(name, 0o700, dir_fd=self.cursor.fd)
        self.cursor.enter(name)
        self._enter(is_new=is_new)

    def _enter(self, *, is_new: bool) -> None:
        listing: frozenset[bytes] | None = None
        if self.reader.flag():
            count = self.reader.number("I")
            self.budget.listing(count)
            listing = frozenset(self.reader.name() for _ in range(count))
            for name in self.cursor.names():
                if name not in listing:
                    found = os.stat(name, dir_fd=self.cursor.fd, follow_symlinks=False)
                    self._make_way(name, found)
        self.levels.append(_Level(is_new, listing))

    def _leave(self) -> None:
        mode, mtime = self.reader.number("I"), self.reader.number("q")
        level = self.levels.pop()
        if level.listing is not None and level.listing != set(self.cursor.names()):
            raise BadStream("a folder of which not everything came")
        folder = os.dup(self.cursor.fd)
        try:
            is_top = not self.levels
            if not is_top:
                # Left first: a mode without search permission would lock us in.
                self.cursor.leave()
            # The mode of a top that was there is no part of what can be changed.
            if level.is_new or (level.listing is not None and not is_top):
                self._finish(folder, mode, mtime)
        finally:
            os.close(folder)

    def _claim(self) -> tuple[bytes, os.stat_result | None]:
        """The name of the next entry, and what the tree has there now."""
        self.budget.entry()
        name, level = self.reader.name(), self.levels[-1]
        if name in level.seen:
            raise BadStream("a name comes twice")
        if level.listing is not None and name not in level.listing:
            raise BadStream("a name that its folder does not list")
        level.seen.add(name)
        try:
            return name, os.stat(name, dir_fd=self.cursor.fd, follow_symlinks=False)
        except FileNotFoundError:
            return name, None

    def _make_way(self, name: bytes, found: os.stat_result | None) -> None:
        if found is None:
            return
        if stat.S_ISDIR(found.st_mode):
            remove_tree(os.fsencode(f"/proc/self/fd/{self.cursor.fd}/") + name)
        else:
            os.unlink(name, dir_fd=self.cursor.fd)

    def _file(self) -> None:
        name, found = self._claim()
        is_linked = self.reader.flag()
        mode, mtime = self.reader.number("I"), self.reader.number("q")
        size = self.reader.number()
        if size > _MAX_SIZE:
            raise BadStream("a size that no file has")
        self._make_way(name, found)
        fd = os.open(name, _CREATE, 0o600, dir_fd=self.cursor.fd)
        try:
            self._content(fd, size)
            self._finish(fd, mode, mtime)
            if is_linked:
                path = (*self.cursor.path, name)
                self.linked[self.files] = _Linked(path, os.fstat(fd).st_ino)
        finally:
            os.close(fd)
        self.files += 1

    def _content(self, fd: int, size: int) -> None:
        position = 0
        while True:
            start, count = self.reader.number(), self.reader.number("I")
            if count == 0:
                break
            if start < position or start + count > size or count > CHUNK_BYTES:
                raise BadStream("content that does not fit into its file")
            self.budget.content(count + _RECORD_BYTES)
            data = memoryview(self.reader.exactly(count))
            position = start
            while data:
                written = os.pwrite(fd, data, position)
                position += written
                data = data[written:]
            self.check()
        os.ftruncate(fd, size)

    def _link(self) -> None:
        name, found = self._claim()
        first = self.linked.get(self.reader.number("I"))
        if first is None:
            raise BadStream("a link to what did not come")
        self._make_way(name, found)
        folder = self._open_below(first.path[:-1])
        try:
            there = os.stat(first.path[-1], dir_fd=folder, follow_symlinks=False)
            if there.st_ino != first.inode or not stat.S_ISREG(there.st_mode):
                raise BadStream("a link to what is there no more")
            os.link(
                first.path[-1],
                name,
                src_dir_fd=folder,
                dst_dir_fd=self.cursor.fd,
                follow_symlinks=False,
            )
        finally:
            os.close(folder)

    def _open_below(self, parts: tuple[bytes, ...]) -> int:
        """Open a folder of the tree name by name, over no link."""
        fd = os.open(".", _HANDLE, dir_fd=self.top_fd)
        for name in parts:
            try:
                child = os.open(name, _HANDLE, dir_fd=fd)
            finally:
                os.close(fd)
            fd = child
        return fd

    def _symlink(self) -> None:
        name, found = self._claim()
        mtime, target = self.reader.number("q"), self.reader.text(MAX_TARGET_BYTES)
        if not target or b"\0" in target:
            raise BadStream("a link without a target")
        self._make_way(name, found)
        folder = self.cursor.fd
        os.symlink(target, name, dir_fd=folder)
        if self.owner is not None:
            os.chown(name, *self.owner, dir_fd=folder, follow_symlinks=False)
        os.utime(name, ns=(mtime, mtime), dir_fd=folder, follow_symlinks=False)

    def _special(self) -> None:
        name, found = self._claim()
        mode = self.reader.number("I")
        # Nothing else: a device would be one of this machine.
        if not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode):
            raise BadStream("a device")
        self._make_way(name, found)
        os.mknod(name, stat.S_IFMT(mode) | 0o600, dir_fd=self.cursor.fd)
        if self.owner is not None:
            os.chown(name, *self.owner, dir_fd=self.cursor.fd, follow_symlinks=False)

    def _finish(self, fd: int, mode: int, mtime: int) -> None:
        # In this order: a change of owner drops mode bits, and everything else touches the times.
        if self.owner is not None:
            os.fchown(fd, *self.owner)
        os.fchmod(fd, mode & 0o7777)
        os.utime(fd, ns=(mtime, mtime))
