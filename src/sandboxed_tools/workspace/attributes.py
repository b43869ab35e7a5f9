"""Extended attributes and access lists of changed files: the workspace's own, never the call's.

A change set shows modes and content. An access list that a call left on a file would open it to
somebody without being seen there, so what is not from the workspace is taken off. Capabilities of a
file are taken off whoever gave them, as set-id bits are: its content or its name is another now.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Final

from sandboxed_tools.workspace.layers import Found

__all__ = ["restore_attributes"]

_CAPABILITIES: Final = "security.capability"
_OVERLAY: Final = "user.overlay."
_ABSENT: Final = (errno.ENODATA, errno.ENOTSUP, errno.EPERM, errno.EACCES)


def restore_attributes(dir_fd: int, name: bytes, original: Found | None) -> None:
    """Give an entry exactly the ``user.*`` attributes and access lists of its original. Blocking.

    It loses its capabilities (capabilities(7)). Overlays' own attributes stay. What the file system
    cannot hold is left out.

    Raises:
        OSError: they cannot be read or written.
    """
    wanted = {} if original is None else dict(_attributes(original.dir_fd, original.name))
    place = _place(dir_fd, name)
    for key, value in list(_attributes(dir_fd, name)):
        if wanted.get(key) == value:
            del wanted[key]
        elif key not in wanted:
            os.removexattr(place, key, follow_symlinks=False)
    for key, value in wanted.items():
        try:
            os.setxattr(place, key, value, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _ABSENT:
                raise
    _drop_capabilities(place)


def _drop_capabilities(place: bytes) -> None:
    try:
        keys = os.listxattr(place, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        return
    if _CAPABILITIES in keys:
        # To remove the attribute takes a capability; a change of owner drops it for the owner, too.
        info = os.stat(place, follow_symlinks=False)
        os.chown(place, info.st_uid, info.st_gid, follow_symlinks=False)


def _attributes(dir_fd: int, name: bytes) -> Iterator[tuple[str, bytes]]:
    place = _place(dir_fd, name)
    try:
        keys = os.listxattr(place, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        return
    for key in keys:
        if key.startswith("system.posix_acl_") or (
            key.startswith("user.") and not key.startswith(_OVERLAY)
        ):
            yield key, os.getxattr(place, key, follow_symlinks=False)


def _place(dir_fd: int, name: bytes) -> bytes:
    # There is no call that takes a name in an open folder.
    return b"/proc/self/fd/%d/%b" % (dir_fd, name)
