"""Removing a tree that a hostile program filled: any depth, any mode, any name, any number.

Stands alone, because the supervisor of a host run executes it too, without the library. Every
process that could change the tree must be dead.
"""

from __future__ import annotations

import os

__all__ = ["remove_tree"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: bytes) -> None:
    """Remove the folder ``path`` and all below it; links are removed, never followed.

    Folders inside folders are first moved up to the top, so that neither the depth of the tree nor
    the length of a path matters.

    Raises:
        OSError: something could not be removed. A folder that is already gone is no error.
    """
    try:
        top = os.open(path, _FOLDER)
    except FileNotFoundError:
        return
    try:
        _empty(top)
    finally:
        os.close(top)
    os.rmdir(path)


def _empty(top: int) -> None:
    count = 0
    names = os.listdir(top)
    while names:
        for name in names:
            if _unlink(name, top):
                continue
            count = _lift_folders(name, top, count)
            os.rmdir(name, dir_fd=top)
        names = os.listdir(top)


def _unlink(name: str, folder: int) -> bool:
    """Whether ``name`` was something other than a folder, and is gone."""
    try:
        os.unlink(name, dir_fd=folder)
    except (IsADirectoryError, PermissionError):
        return False
    return True


def _lift_folders(name: str, top: int, count: int) -> int:
    """Empty one folder: unlink what is in it and move its folders to the top."""
    os.chmod(name, 0o700, dir_fd=top)
    folder = os.open(name, _FOLDER, dir_fd=top)
    try:
        for child in os.listdir(folder):
            if _unlink(child, folder):
                continue
            # Moving a folder rewrites its "..", which takes the right to write in it (rename(2)).
            os.chmod(child, 0o700, dir_fd=folder)
            count = _free_number(top, count)
            os.rename(child, f".lifted-{count}", src_dir_fd=folder, dst_dir_fd=top)
    finally:
        os.close(folder)
    return count


def _free_number(top: int, count: int) -> int:
    while True:
        count += 1
        try:
            os.lstat(f".lifted-{count}", dir_fd=top)
        except FileNotFoundError:
            return count
