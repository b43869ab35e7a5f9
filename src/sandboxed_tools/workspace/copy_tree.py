"""Copying a tree faithfully: sparse files stay sparse, hard links stay links, nothing is followed.

Devices, FIFOs, sockets and what may not be read are left out and reported; set-id bits are dropped.
The depth of the tree costs neither stack nor descriptors.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sandboxed_tools.workspace.cursor import Entry, TreeCursor, walk

__all__ = ["CopyReport", "TreeCopy", "copy_tree", "data_extents", "finish_copy"]

_CHUNK_BYTES: Final = 8 * 1024 * 1024
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_NAMED: Final = 20


@dataclass(slots=True)
class CopyReport:
    """What a copy came to. ``skipped`` names the first entries that were left out."""

    entries: int = 0
    copied_bytes: int = 0
    skipped_count: int = 0
    skipped: list[bytes] = field(default_factory=list)

    def skip(self, entry: Entry) -> None:
        self.skipped_count += 1
        if len(self.skipped) < _MAX_NAMED:
            self.skipped.append(b"/".join(entry.path))


def copy_tree(source_fd: int, target: Path, *, owner: tuple[int, int] | None) -> CopyReport:
    """Copy what is in the folder behind ``source_fd`` into the existing, private, empty ``target``.

    Everything in the copy belongs to ``owner``, with the modes and times of the original. Without
    an owner, owners and set-id bits are copied too: only for what is the host's own. A file that
    changes while it is read is copied as it was read. Blocking; O(tree).

    Raises:
        OSError: something cannot be read or written; ``target`` then holds part of the tree.
        TreeMoved: a folder of the source was moved during the copy.
    """
    report = CopyReport()
    target_fd = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with TreeCursor(source_fd) as source, TreeCursor(target_fd) as copy:
            job = TreeCopy(source, copy, target_fd, owner, report)
            for entry in walk(source):
                job.take(entry)
        finish_copy(target_fd, os.fstat(source_fd), owner=owner)
    finally:
        os.close(target_fd)
    return report


@dataclass(slots=True)
class TreeCopy:
    """A copy under way: takes the entries of a walk through ``source``, one by one."""

    source: TreeCursor
    copy: TreeCursor
    target_fd: int
    owner: tuple[int, int] | None
    report: CopyReport
    links: dict[tuple[int, int], bytes] = field(default_factory=dict)

    def take(self, entry: Entry) -> None:
        """Copy one entry; the copy's cursor follows the source's."""
        if entry.left:
            if entry.unreadable:
                self.report.skip(entry)
            self._leave(entry)
            return
        mode = entry.info.st_mode
        if stat.S_ISDIR(mode):
            os.mkdir(entry.name, 0o700, dir_fd=self.copy.fd)
            self.report.entries += 1
            self.copy.enter(entry.name)
        elif stat.S_ISLNK(mode):
            self._symlink(entry)
        elif stat.S_ISREG(mode):
            self._file(entry)
        else:
            self.report.skip(entry)

    def _leave(self, entry: Entry) -> None:
        folder = os.dup(self.copy.fd)
        try:
            # Left first: a mode without search permission would lock us in.
            self.copy.leave()
            finish_copy(folder, entry.info, owner=self.owner)
        finally:
            os.close(folder)

    def _symlink(self, entry: Entry) -> None:
        name, folder = entry.name, self.copy.fd
        os.symlink(os.readlink(name, dir_fd=self.source.fd), name, dir_fd=folder)
        owner = self.owner or (entry.info.st_uid, entry.info.st_gid)
        os.chown(name, *owner, dir_fd=folder, follow_symlinks=False)
        times = (entry.info.st_atime_ns, entry.info.st_mtime_ns)
        os.utime(name, ns=times, dir_fd=folder, follow_symlinks=False)
        self.report.entries += 1

    def _file(self, entry: Entry) -> None:
        key = (entry.info.st_dev, entry.info.st_ino)
        if entry.info.st_nlink > 1 and self._linked(key, entry.name):
            self.report.entries += 1
            return
        try:
            source = os.open(entry.name, _READ, dir_fd=self.source.fd)
        except (PermissionError, BlockingIOError):
            # BlockingIOError: somebody holds a lease on the file (fcntl(2), F_SETLEASE).
            self.report.skip(entry)
            return
        try:
            info = os.fstat(source)
            if not stat.S_ISREG(info.st_mode):
                self.report.skip(entry)
                return
            copy = os.open(entry.name, _CREATE, 0o600, dir_fd=self.copy.fd)
            try:
                self.report.copied_bytes += _copy_data(source, copy, info.st_size)
                finish_copy(copy, info, owner=self.owner)
            finally:
                os.close(copy)
        finally:
            os.close(source)
        self.report.entries += 1
        path = b"/".join(entry.path)
        if info.st_nlink > 1 and len(path) < os.pathconf(self.copy.fd, "PC_PATH_MAX"):
            self.links[key] = path

    def _linked(self, key: tuple[int, int], name: bytes) -> bool:
        first = self.links.get(key)
        if first is None:
            return False
        with contextlib.suppress(OSError):
            os.link(first, name, src_dir_fd=self.target_fd, dst_dir_fd=self.copy.fd)
            return True
        return False


def finish_copy(fd: int, info: os.stat_result, *, owner: tuple[int, int] | None) -> None:
    """Give a copy the mode and times of its original, and its owner, as :func:`copy_tree` says."""
    # In this order: a change of owner drops mode bits, and everything else touches the times.
    os.fchown(fd, *(owner or (info.st_uid, info.st_gid)))
    os.fchmod(fd, stat.S_IMODE(info.st_mode) & (0o1777 if owner else 0o7777))
    os.utime(fd, ns=(info.st_atime_ns, info.st_mtime_ns))


def _copy_data(source: int, copy: int, size: int) -> int:
    """Copy the data extents of a file and leave its holes; returns how many bytes were copied."""
    copied = 0
    for start, end in data_extents(source, size):
        position = start
        while position < end:
            sent = _send(source, copy, position, min(_CHUNK_BYTES, end - position))
            if not sent:
                break
            position += sent
        copied += position - start
    os.ftruncate(copy, size)
    return copied


def data_extents(fd: int, size: int) -> Iterator[tuple[int, int]]:
    """The parts that hold data (lseek(2), SEEK_DATA); the whole file where that is unknown."""
    position = 0
    while position < size:
        try:
            start = os.lseek(fd, position, os.SEEK_DATA)
            end = os.lseek(fd, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            if error.errno != errno.EINVAL:
                raise
            start, end = position, size
        yield start, min(end, size)
        position = end


def _send(source: int, copy: int, position: int, count: int) -> int:
    with contextlib.suppress(OSError):
        # In the kernel, and by reference where the file system can (copy_file_range(2)).
        return os.copy_file_range(source, copy, count, position, position)
    data = os.pread(source, count, position)
    written = 0
    while written < len(data):
        written += os.pwrite(copy, data[written:], position + written)
    return written
