"""Building an upper folder out of others without copying a byte: files become further hard links.

So the folders that are built from stay as they are, for calls that still see them, and the inodes
by which files are recognised stay the same.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from sandboxed_tools.workspace.cursor import Entry, TreeCursor, walk
from sandboxed_tools.workspace.layers import confined, is_opaque, is_whiteout, own_marks
from sandboxed_tools.workspace.remove import remove_tree
from sandboxed_tools.workspace.spelling import Parts

__all__ = ["lay_over", "link_selected"]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def link_selected(
    source_fd: int,
    target_fd: int,
    selected: Callable[[Parts], bool],
    *,
    deleted: Iterable[Parts] = (),
) -> None:
    """Link the selected entries of an upper folder into an empty one, with the folders above them.

    No folder of the target hides everything below it, as an opaque one does: it would hide what is
    not selected, too. What is ``deleted`` gets a whiteout each instead.

    Raises:
        OSError: the target then has some of them.
    """
    with TreeCursor(source_fd, force=True) as cursor:
        folders: dict[Parts, os.stat_result] = {}
        for entry in walk(cursor):
            if entry.left:
                folders.pop(entry.path, None)
                continue
            if entry.is_folder:
                folders[entry.path] = entry.info
            if selected(entry.path):
                above = [folders[entry.path[:end]] for end in range(1, len(entry.path))]
                _make_folders(target_fd, entry.path[:-1], above)
                _put(cursor, entry, target_fd, is_part=True)
    for parts in deleted:
        _whiten(source_fd, target_fd, parts)


def _whiten(source_fd: int, target_fd: int, parts: Parts) -> None:
    """Leave a whiteout in the target, unless there is one."""
    above = []
    for end in range(1, len(parts)):
        folder = confined(source_fd).open_listing(parts[:end])
        try:
            above.append(os.fstat(folder))
        finally:
            os.close(folder)
    _make_folders(target_fd, parts[:-1], above)
    folder = confined(target_fd).open_listing(parts[:-1])
    try:
        with suppress(FileExistsError):
            os.mknod(parts[-1], stat.S_IFCHR, 0, dir_fd=folder)
    finally:
        os.close(folder)


def lay_over(source_fd: int, target_fd: int) -> None:
    """Merge an upper folder onto another one, as an overlay of both would show them.

    Raises:
        OSError: the target then has part of it.
    """
    with TreeCursor(source_fd, force=True) as cursor:
        for entry in walk(cursor):
            if not entry.left:
                _put(cursor, entry, target_fd)


def _put(cursor: TreeCursor, entry: Entry, target_fd: int, *, is_part: bool = False) -> None:
    """Put one entry in its place, instead of what is there."""
    folder = confined(target_fd).open_listing(entry.path[:-1])
    try:
        if entry.is_folder:
            _put_folder(cursor, entry, folder, is_part=is_part)
            return
        _clear(folder, entry.name)
        if is_whiteout(entry.info):
            os.mknod(entry.name, stat.S_IFCHR, 0, dir_fd=folder)
        else:
            os.link(
                entry.name,
                entry.name,
                src_dir_fd=cursor.fd,
                dst_dir_fd=folder,
                follow_symlinks=False,
            )
    finally:
        os.close(folder)


def _put_folder(cursor: TreeCursor, entry: Entry, folder: int, *, is_part: bool) -> None:
    cursor.enter(entry.name)
    try:
        hides = is_opaque(cursor.fd)
    finally:
        cursor.leave()
    there = None
    with suppress(FileNotFoundError):
        there = os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
    if there is not None and (hides or not stat.S_ISDIR(there.st_mode)):
        # What was here hid the layers below; the folder in its place must go on hiding them.
        hides = True
        _clear(folder, entry.name)
        there = None
    if there is None:
        os.mkdir(entry.name, 0o700, dir_fd=folder)
    child = os.open(entry.name, _FOLDER, dir_fd=folder)
    try:
        _dress(child, entry.info)
        if hides and not is_part:
            _make_opaque(child)
    finally:
        os.close(child)


def _make_folders(target_fd: int, parts: Parts, infos: list[os.stat_result]) -> None:
    for end in range(1, len(parts) + 1):
        folder = confined(target_fd).open_listing(parts[: end - 1])
        try:
            with suppress(FileExistsError):
                os.mkdir(parts[end - 1], 0o700, dir_fd=folder)
                child = os.open(parts[end - 1], _FOLDER, dir_fd=folder)
                try:
                    _dress(child, infos[end - 1])
                finally:
                    os.close(child)
        finally:
            os.close(folder)


def _dress(folder: int, info: os.stat_result) -> None:
    if (info.st_uid, info.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(folder, info.st_uid, info.st_gid)
    # Our own way through stays open; a change of this mode is in the set's facts.
    os.fchmod(folder, stat.S_IMODE(info.st_mode) | 0o700)
    os.utime(folder, ns=(info.st_atime_ns, info.st_mtime_ns))


def _make_opaque(folder: int) -> None:
    os.setxattr(folder, f"{own_marks()}opaque", b"y")


def _clear(folder: int, name: bytes) -> None:
    remove_tree(b"/proc/self/fd/%d/%b" % (folder, name))
