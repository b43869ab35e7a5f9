"""Finding out what a call changed in a copied tree, in the form that an overlay would have given.

The kernel stamps every change of an entry (``ctime``), and nothing unprivileged can set that stamp
back. So an entry that is the same inode at the same path, with a stamp older than the end of the
copying, is untouched, whatever its size and times say.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from sandboxed_tools.tool.mounts import ViewUsage
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.cursor import Entry, TreeCursor, walk
from sandboxed_tools.workspace.file_time import file_time_ns
from sandboxed_tools.workspace.layers import LowerTree
from sandboxed_tools.workspace.overlay_marks import remove_marks_of
from sandboxed_tools.workspace.settle import Origin, layers_of
from sandboxed_tools.workspace.spelling import Parts

__all__ = ["Copied", "collect_changes"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _path_mark(path: Parts) -> bytes:
    """A short mark of a path, to remember many of them."""
    return blake2b(b"/".join(path), digest_size=10).digest()


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy started from: the inode of each path's mark, its size, and when that was."""

    inodes: Mapping[bytes, int]
    usage: ViewUsage
    complete_ns: int

    @classmethod
    def survey(cls, copy: Path) -> Copied:
        """Look at a copy that is complete, and that nobody uses yet. Blocking, O(tree).

        Raises:
            OSError, TreeMoved: somebody is at it.
        """
        inodes: dict[bytes, int] = {}
        changed_bytes = 0
        fd = os.open(copy, _FOLDER)
        try:
            with TreeCursor(fd, force=True) as cursor:
                for entry in walk(cursor):
                    if not entry.left:
                        inodes[_path_mark(entry.path)] = entry.info.st_ino
                        changed_bytes += entry.info.st_blocks * 512
        finally:
            os.close(fd)
        # Last, because the walk opens folders up that lock us out, which is stamped as a change.
        return cls(inodes, ViewUsage(changed_bytes, len(inodes)), file_time_ns(copy.parent))


def collect_changes(origin: Origin, copied: Copied, *, copy: Path, upper: Path) -> None:
    """Move what was changed in ``copy`` into the new folder ``upper``. Blocking, O(tree).

    Raises:
        InvalidWorkspace, OSError, TreeMoved: the copy is then of no more use.
    """
    upper.mkdir(mode=0o700)
    with ExitStack() as stack:
        lower = stack.enter_context(layers_of(origin, ChangeStore()))
        copy_fd, upper_fd = os.open(copy, _FOLDER), os.open(upper, _FOLDER)
        stack.callback(os.close, copy_fd)
        stack.callback(os.close, upper_fd)
        cursor = stack.enter_context(TreeCursor(copy_fd, force=True))
        upper_cursor = stack.enter_context(TreeCursor(upper_fd))
        collector = _Collector(copied, cursor, lower, upper_cursor)
        collector.deletions((), cursor.names())
        for entry in walk(cursor):
            collector.take(entry)


@dataclass(slots=True)
class _Collector:
    """Takes the entries of the copy in the order of the walk; ``upper`` follows it where needed."""

    copied: Copied
    cursor: TreeCursor
    lower: LowerTree
    upper: TreeCursor
    modes: list[int] = field(default_factory=list)

    def take(self, entry: Entry) -> None:
        if entry.left:
            mode = self.modes.pop()
            # The upper tree's cursor is only ever in folders that were made, and not yet left.
            if tuple(self.upper.path[: len(entry.path)]) == entry.path:
                self._close_folder(entry.path, mode)
            return
        same = self.copied.inodes.get(_path_mark(entry.path)) == entry.info.st_ino
        touched = not same or entry.info.st_ctime_ns > self.copied.complete_ns
        if not entry.is_folder:
            if touched:
                self._move(entry)
            return
        found = self.lower.find(entry.path)
        known = found is not None and stat.S_ISDIR(found.info.st_mode)
        mode = stat.S_IMODE(entry.info.st_mode)
        original = stat.S_IMODE(found.info.st_mode) if found is not None and known else None
        if original is not None and mode == original & 0o1777:
            # Copies never have set-id bits; that is no change of the folder's mode.
            mode = original
        self.modes.append(mode)
        if touched and mode != original:
            self._folder(entry.path)
        if known and touched:
            self.cursor.enter(entry.name)
            try:
                names = self.cursor.names()
            finally:
                self.cursor.leave()
            self.deletions(entry.path, names)

    def deletions(self, path: Parts, names: list[bytes]) -> None:
        """Leave a whiteout for what the copy had in a folder and has no more."""
        present = set(names)
        gone = [
            name
            for name in self.lower.names(path)
            if name not in present and _path_mark((*path, name)) in self.copied.inodes
        ]
        if not gone:
            return
        folder = self._folder(path)
        for name in gone:
            # An unprivileged process may make this one device (mknod(2), Linux 5.8).
            os.mknod(name, stat.S_IFCHR, 0, dir_fd=folder)

    def _move(self, entry: Entry) -> None:
        folder = self._folder(entry.path[:-1])
        # In a copy nothing keeps a call from setting what overlays believe.
        remove_marks_of(self.cursor.fd, entry.name)
        os.rename(entry.name, entry.name, src_dir_fd=self.cursor.fd, dst_dir_fd=folder)

    def _folder(self, path: Parts) -> int:
        """The upper tree's folder, made with its parents where it is missing; open until the next.

        From where the last one was, not from the top: else the cost of a deep tree grows with the
        square of its depth.
        """
        while tuple(self.upper.path) != path[: len(self.upper.path)]:
            self.upper.leave()
        for name in path[len(self.upper.path) :]:
            os.mkdir(name, 0o700, dir_fd=self.upper.fd)
            self.upper.enter(name)
        return self.upper.fd

    def _close_folder(self, path: Parts, mode: int) -> None:
        """Give a folder that is complete its mode, which may lock us out: left first."""
        folder = os.dup(self._folder(path))
        try:
            self.upper.leave()
            os.fchmod(folder, mode)
        finally:
            os.close(folder)
