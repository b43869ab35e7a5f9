"""Taking off the attributes by which overlays remember things, once files leave an upper folder."""

from __future__ import annotations

import errno
import os
from typing import Final

from sandboxed_tools.workspace.change import Change
from sandboxed_tools.workspace.descent import Descent
from sandboxed_tools.workspace.layers import confined

__all__ = ["remove_marks", "remove_marks_of"]

_MARKS: Final = ("trusted.overlay.", "user.overlay.")
_GONE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV, errno.ENODATA)
_NOT_THERE: Final = (errno.ENOTSUP, errno.EPERM, errno.EACCES)


def remove_marks(workspace_fd: int, changes: tuple[Change, ...]) -> None:
    """Remove overlay attributes from what these changes brought into the workspace. Blocking.

    Files have lost theirs when the changes were read.
    """
    with Descent(confined(workspace_fd)) as descent:
        for change in changes:
            if change.after is None or change.after.kind == "file":
                continue
            path, _, name = change.path.rpartition(b"/")
            try:
                folder = descent.at(path)
            except OSError as error:
                if error.errno not in (*_GONE, *_NOT_THERE):
                    raise
                continue
            remove_marks_of(folder, name)


def remove_marks_of(folder: int, name: bytes) -> None:
    """Remove overlay attributes from one entry of an open folder. Blocking.

    Raises:
        OSError: they cannot be removed.
    """
    # By the descriptor of the folder: there is no call that takes a name in a folder.
    place = b"/proc/self/fd/%d/%b" % (folder, name)
    try:
        for mark in os.listxattr(place, follow_symlinks=False):
            if mark.startswith(_MARKS):
                os.removexattr(place, mark, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (*_GONE, *_NOT_THERE):
            raise
