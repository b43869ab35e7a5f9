"""Deleting a tree that hostile code has built.

``shutil.rmtree`` recurses (before Python 3.13) and fails at a thousand levels, and it needs folders
that can be opened. This walk is iterative, holds a fixed number of descriptors, follows no link,
crosses no mount, and opens folders of any mode.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from typing import Final

from sandboxed_tools.workspace.mounts import same_mount
from sandboxed_tools.workspace.openat2 import NO_SYMLINKS, NO_XDEV, openat2, openat2_available

__all__ = ["remove_tree"]

_OPEN_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_KEPT_LEVELS: Final = 32
"""Folders held open on the way down; deeper ones are first moved up, whatever the depth."""
_MAX_PASSES: Final = 3


def remove_tree(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> None:
    """Delete ``path`` and everything below it; a path that does not exist is no error.

    A link is removed, never followed. A mount below ``path`` is left alone with all its content:
    it makes the removal fail with EBUSY or EXDEV. The parents of ``path`` are trusted. Everything
    that can be removed is, before the first failure is raised.

    Raises:
        OSError: something could not be removed; a note says how many entries there were.
    """
    parent, name = os.path.split(os.fsencode(path).rstrip(b"/"))
    if name in (b"", b".", b".."):
        raise OSError(errno.EBUSY, "a tree is removed by its name", os.fsdecode(path))
    try:
        parent_fd = os.open(parent or b".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        _remove_entry(parent_fd, name)
    finally:
        os.close(parent_fd)


def _remove_entry(parent_fd: int, name: bytes) -> None:
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=parent_fd, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=parent_fd)
            return
        top_fd = _open_folder(parent_fd, name)
    except FileNotFoundError:
        return
    try:
        _remove_folder(parent_fd, name, _Removal(top_fd=top_fd))
    finally:
        os.close(top_fd)


def _remove_folder(parent_fd: int, name: bytes, removal: _Removal) -> None:
    # A further pass only matters where somebody still creates entries while we delete.
    for _ in range(_MAX_PASSES):
        removal.empty_top()
        try:
            os.rmdir(name, dir_fd=parent_fd)
            return
        except FileNotFoundError:
            return
        except OSError as error:
            removal.failed(error)
        if not any(error.errno == errno.ENOTEMPTY for error in removal.failures):
            break
    first = removal.failures[0]
    first.add_note(f"{len(removal.failures)} entries of {os.fsdecode(name)!r} remain")
    raise first


class _Removal:
    """One removal: the open top folder, and what failed in it."""

    def __init__(self, *, top_fd: int) -> None:
        self.top_fd = top_fd
        self.failures: list[OSError] = []
        self._moved = False

    def failed(self, error: OSError) -> None:
        self.failures.append(error)

    def empty_top(self) -> None:
        """Delete everything in the top folder, deep parts in rounds after they were moved up."""
        self._moved = True
        while self._moved:
            self._moved = False
            self.failures.clear()
            self._empty(os.dup(self.top_fd))

    def _empty(self, folder_fd: int) -> None:
        """Delete what is in ``folder_fd``, which is closed, with at most ``_KEPT_LEVELS`` open."""
        stack: list[tuple[int, bytes, Iterator[bytes]]] = []
        try:
            stack.append((folder_fd, b"", self._entries(folder_fd)))
            while stack:
                fd, name, subfolders = stack[-1]
                subfolder = next(subfolders, None)
                if subfolder is not None:
                    self._enter(stack, fd, subfolder)
                    continue
                stack.pop()
                os.close(fd)
                if stack:
                    self._try_rmdir(stack[-1][0], name)
        finally:
            for fd, _, _ in stack:
                os.close(fd)

    def _enter(
        self, stack: list[tuple[int, bytes, Iterator[bytes]]], fd: int, subfolder: bytes
    ) -> None:
        if len(stack) >= _KEPT_LEVELS and self._move_up(fd, subfolder):
            return
        try:
            child = _open_folder(fd, subfolder)
        except OSError as error:
            if error.errno != errno.ENOENT:
                self.failed(error)
            return
        stack.append((child, subfolder, self._entries(child)))

    def _entries(self, fd: int) -> Iterator[bytes]:
        """Unlink what is no folder, and name the folders, after the listing is complete."""
        folders: list[bytes] = []
        try:
            with os.scandir(fd) as entries:
                for entry in entries:
                    self._unlink_or_keep(fd, entry, folders)
        except OSError as error:
            self.failed(error)
        return iter(folders)

    def _unlink_or_keep(self, fd: int, entry: os.DirEntry[str], folders: list[bytes]) -> None:
        name = os.fsencode(entry.name)
        try:
            if entry.is_dir(follow_symlinks=False):
                folders.append(name)
            else:
                os.unlink(name, dir_fd=fd)
        except FileNotFoundError:
            return
        except IsADirectoryError:
            folders.append(name)
        except OSError as error:
            self.failed(error)

    def _move_up(self, fd: int, subfolder: bytes) -> bool:
        # Renaming a folder rewrites its "..", for which the kernel asks write permission on it.
        with contextlib.suppress(OSError):
            os.close(_open_folder(fd, subfolder))
            target = b".removing-" + secrets.token_hex(12).encode()
            os.rename(subfolder, target, src_dir_fd=fd, dst_dir_fd=self.top_fd)
            self._moved = True
            return True
        return False

    def _try_rmdir(self, parent_fd: int, name: bytes) -> None:
        try:
            os.rmdir(name, dir_fd=parent_fd)
        except FileNotFoundError:
            return
        except OSError as error:
            self.failed(error)


def _open_folder(dir_fd: int, name: bytes) -> int:
    """Open one folder for listing and deleting, whatever its mode, without crossing a mount."""
    if openat2_available():
        handle = openat2(
            dir_fd,
            name,
            os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW,
            resolve=NO_XDEV | NO_SYMLINKS,
        )
    else:
        handle = os.open(
            name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd
        )
    try:
        if not openat2_available() and not same_mount(dir_fd, handle):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), os.fsdecode(name))
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        if mode & 0o700 != 0o700:
            with contextlib.suppress(PermissionError):
                # chmod by name would follow a link that was put there meanwhile.
                os.chmod(f"/proc/self/fd/{handle}", mode | 0o700)
        return os.open(".", _OPEN_FOLDER, dir_fd=handle)
    finally:
        os.close(handle)
