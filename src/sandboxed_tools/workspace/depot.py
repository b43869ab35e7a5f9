"""A folder in the workspace through which changes pass when the state folder is on another disk.

Renames, which make an apply whole and quick, do not reach across file systems. So the entries are
first copied into a private folder on the workspace's own, and what they replaced is copied back.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from sandboxed_tools.workspace.copy_tree import copy_tree
from sandboxed_tools.workspace.mounts import same_mount
from sandboxed_tools.workspace.remove import remove_tree

__all__ = ["drop_depot", "fill_depot", "needs_depot", "open_depot"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def needs_depot(first_fd: int, second_fd: int) -> bool:
    """Whether nothing can be renamed between two folders: another disk, mount or subvolume."""
    if os.fstat(first_fd).st_dev != os.fstat(second_fd).st_dev:
        return True
    return not same_mount(first_fd, second_fd)


def fill_depot(
    workspace_fd: int, change_set_id: str, content_fd: int, *, owner: tuple[int, int] | None
) -> int:
    """Make the depot with a copy of ``content_fd``; an open descriptor, which the caller closes.

    ``owner`` as for :func:`copy_tree`. Raises OSError; the depot may then be there in part.
    """
    drop_depot(workspace_fd, change_set_id)
    os.mkdir(_name(change_set_id), 0o700, dir_fd=workspace_fd)
    copy_tree(content_fd, _path(workspace_fd, change_set_id), owner=owner)
    fd = open_depot(workspace_fd, change_set_id)
    if fd is None:
        raise FileNotFoundError("the depot was removed by somebody")
    os.fchmod(fd, 0o700)
    return fd


def open_depot(workspace_fd: int, change_set_id: str) -> int | None:
    """The depot, open; ``None`` when there is none."""
    with suppress(FileNotFoundError):
        return os.open(_name(change_set_id), _FOLDER, dir_fd=workspace_fd)
    return None


def drop_depot(workspace_fd: int, change_set_id: str) -> None:
    """Remove the depot; none there is no error."""
    remove_tree(_path(workspace_fd, change_set_id))


def _name(change_set_id: str) -> str:
    return f".sandboxed-tools-{change_set_id}"


def _path(workspace_fd: int, change_set_id: str) -> Path:
    # The workspace may have been moved since it was opened; its descriptor still leads to it.
    return Path(f"/proc/self/fd/{workspace_fd}", _name(change_set_id))
