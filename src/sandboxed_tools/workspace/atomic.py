"""Writing a file whole or not at all, and never over somebody else's change.

The new content is written to a nameless file in the same folder (``O_TMPFILE``, open(2)), made
durable, and only then given a name, so that a process killed in the middle leaves the old file. To
replace a file, both names are exchanged in one step; then what was replaced is compared with what
was expected, and exchanged back if somebody had changed it. A writer that keeps the old file open
and goes on writing to it is not noticed: no file system call could tell.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sandboxed_tools.workspace.renames import try_exchange_names

__all__ = ["Expected", "FileChangedError", "create_file", "replace_file"]

_FLAGS: Final = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_NO_TMPFILE: Final = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT})
_KEPT_ATTRIBUTES: Final = ("user.", "system.posix_acl_access")


class FileChangedError(Exception):
    """The file is not, or not any more, what the new content was made from. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The file that is to be replaced: open, and with the content that it had when it was read."""

    fd: int
    info: os.stat_result
    content: bytes


def create_file(
    dir_fd: int, name: bytes, content: bytes, *, owner: tuple[int, int] | None = None
) -> os.stat_result:
    """Make a new file in an open folder; its mode is 0666 less the umask.

    Raises:
        FileChangedError: there is something of that name already, a dangling link included.
        OSError: the disk is full, the folder cannot be written to, …; nothing is left behind.
    """
    with _draft(dir_fd, content, mode=0o666) as draft:
        if owner is not None:
            os.fchown(draft.fd, *owner)
        os.fsync(draft.fd)
        try:
            draft.link(name)
        except FileExistsError:
            raise FileChangedError("it exists already") from None
        info = os.fstat(draft.fd)
    _sync_folder(dir_fd)
    return info


def replace_file(dir_fd: int, name: bytes, content: bytes, *, expected: Expected) -> os.stat_result:
    """Replace a file in an open folder, keeping owner, mode, ``user.`` attributes and ACL.

    Set-id bits are not kept; other hard links go on naming the old content. Where the owner cannot
    be kept, the file belongs to the client.

    Raises:
        FileChangedError: the name, the file or its content is not the expected one any more.
        OSError: as :func:`create_file`; the old file is still there.
    """
    with _draft(dir_fd, content, mode=0o600) as draft:
        _copy_metadata(expected, draft.fd)
        os.fsync(draft.fd)
        draft.link(draft.name)
        _swap(draft, name, expected)
        info = os.fstat(draft.fd)
    _sync_folder(dir_fd)
    return info


@dataclass(slots=True)
class _Draft:
    """A file under way, with no name, or a name of its own where the file system demands one."""

    dir_fd: int
    fd: int
    name: bytes
    has_name: bool

    def link(self, name: bytes) -> None:
        if self.has_name and name == self.name:
            return
        source = self.name if self.has_name else f"/proc/self/fd/{self.fd}".encode()
        os.link(
            source,
            name,
            src_dir_fd=self.dir_fd,
            dst_dir_fd=self.dir_fd,
            follow_symlinks=not self.has_name,
        )
        self.has_name = self.has_name or name == self.name


@contextlib.contextmanager
def _draft(dir_fd: int, content: bytes, *, mode: int) -> Iterator[_Draft]:
    """A written draft; whatever still has the draft's own name in the end is removed."""
    name = b".st-" + secrets.token_hex(12).encode() + b".tmp"
    try:
        draft = _Draft(
            dir_fd, os.open(b".", _FLAGS | os.O_TMPFILE, mode, dir_fd=dir_fd), name, False
        )
    except OSError as error:
        if error.errno not in _NO_TMPFILE:
            raise
        fd = os.open(name, _FLAGS | os.O_CREAT | os.O_EXCL, mode, dir_fd=dir_fd)
        draft = _Draft(dir_fd, fd, name, True)
    try:
        _write_all(draft.fd, content)
        yield draft
    finally:
        os.close(draft.fd)
        if draft.has_name:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=dir_fd)


def _write_all(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def _copy_metadata(expected: Expected, fd: int) -> None:
    for attribute in _attributes(expected.fd):
        with contextlib.suppress(OSError):
            os.setxattr(fd, attribute, os.getxattr(expected.fd, attribute))
    info = expected.info
    try:
        os.fchown(fd, info.st_uid, info.st_gid)
    except PermissionError:
        with contextlib.suppress(PermissionError):
            os.fchown(fd, -1, info.st_gid)
    os.fchmod(fd, stat.S_IMODE(info.st_mode) & 0o777)


def _attributes(fd: int) -> list[str]:
    try:
        return [name for name in os.listxattr(fd) if name.startswith(_KEPT_ATTRIBUTES)]
    except OSError:
        return []


def _swap(draft: _Draft, name: bytes, expected: Expected) -> None:
    dir_fd = draft.dir_fd
    try:
        if not try_exchange_names(dir_fd, name, draft.name):
            # No exchange on this file system: a change in the moment before rename() is lost.
            if not _is_expected(dir_fd, name, expected):
                raise FileChangedError("it was changed by somebody else")
            os.rename(draft.name, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
            return
        if _is_expected(dir_fd, draft.name, expected):
            return
        try_exchange_names(dir_fd, name, draft.name)
    except FileNotFoundError:
        raise FileChangedError("it was removed by somebody else") from None
    # If a third party came in between, what has the draft's name now is its file: not ours to
    # remove.
    ours = os.fstat(draft.fd)
    named = os.stat(draft.name, dir_fd=dir_fd, follow_symlinks=False)
    draft.has_name = (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino)
    raise FileChangedError("it was changed by somebody else")


def _is_expected(dir_fd: int, name: bytes, expected: Expected) -> bool:
    """Whether a name still stands for the file that was read, with the content that was read."""
    try:
        named = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    now = os.fstat(expected.fd)
    if (named.st_dev, named.st_ino) != (now.st_dev, now.st_ino):
        return False
    if (now.st_size, now.st_mtime_ns) != (expected.info.st_size, expected.info.st_mtime_ns):
        return False
    # The clock of time stamps is coarse, and times can be set: the content decides.
    return _has_content(expected.fd, expected.content)


def _has_content(fd: int, content: bytes) -> bool:
    offset = 0
    while chunk := os.pread(fd, 1024 * 1024, offset):
        # Slices, not a memoryview: that one is compared byte by byte in a loop.
        if chunk != content[offset : offset + len(chunk)]:
            return False
        offset += len(chunk)
    return offset == len(content)


def _sync_folder(dir_fd: int) -> None:
    """Make a name durable; a folder that may not be read cannot be synced, and is left alone."""
    try:
        fd = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=dir_fd)
    except PermissionError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
