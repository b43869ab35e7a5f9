"""Extended attributes and access lists of changed files: the workspace's own, never the call's.

A change set shows modes and content. An access list that a call left on a file would open it to
somebody without being seen there, so what is not from the workspace is taken off. So are labels of
security modules: while SELinux has no policy, owners may set any (security/selinux/hooks.c).
Capabilities of a file are taken off whoever gave them, as set-id bits are: its content or its name
is another now.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Final

from sandboxed_tools.workspace.layers import Found, own_marks

__all__ = ["restore_attributes"]

_CAPABILITIES: Final = "security.capability"
_SECURITY: Final = "security."
_COMPARED: Final = ("user.", "system.posix_acl_", _SECURITY)
_RESTORED: Final = ("user.", "system.posix_acl_", "security.selinux")
"""Not signatures and hashes of the content (``security.ima``), which is another now."""
_ABSENT: Final = (errno.ENODATA, errno.ENOTSUP, errno.EPERM, errno.EACCES)


def restore_attributes(
    dir_fd: int, name: bytes, original: Found | None, *, keeps_marks: bool = True
) -> None:
    """Give an entry exactly the attributes, access lists and label of its original. Blocking.

    It loses its capabilities (capabilities(7)). Those stay by which our own overlays remember
    things, if it ``keeps_marks``: files need none any more. What the file system cannot hold, or a
    security module does not allow, is left out.

    Raises:
        OSError: they cannot be read or written.
    """
    wanted = {}
    if original is not None:
        theirs = _place(original.dir_fd, original.name)
        wanted = {
            key: os.getxattr(theirs, key, follow_symlinks=False)
            for key in _keys(theirs)
            if key.startswith(_RESTORED) and not key.startswith(own_marks())
        }
    place = _place(dir_fd, name)
    keys = _keys(place)
    for key in keys:
        if key.startswith(own_marks()):
            if not keeps_marks:
                os.removexattr(place, key, follow_symlinks=False)
        elif key.startswith(_COMPARED) and key != _CAPABILITIES:
            _compare(place, key, wanted)
    for key, value in wanted.items():
        with _as_far_as_possible():
            os.setxattr(place, key, value, follow_symlinks=False)
    if _CAPABILITIES in keys:
        # To remove the attribute takes a capability; a change of owner drops it for the owner, too.
        info = os.stat(place, follow_symlinks=False)
        os.chown(place, info.st_uid, info.st_gid, follow_symlinks=False)


def _compare(place: bytes, key: str, wanted: dict[str, bytes]) -> None:
    """Remove an attribute that is not wanted, or have no more wish for one that is right."""
    if key not in wanted:
        with _as_far_as_possible() if key.startswith(_SECURITY) else nullcontext():
            os.removexattr(place, key, follow_symlinks=False)
    elif os.getxattr(place, key, follow_symlinks=False) == wanted[key]:
        del wanted[key]


@contextmanager
def _as_far_as_possible() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _ABSENT:
            raise


def _keys(place: bytes) -> list[str]:
    try:
        return os.listxattr(place, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        return []


def _place(dir_fd: int, name: bytes) -> bytes:
    # There is no call that takes a name in an open folder.
    return b"/proc/self/fd/%d/%b" % (dir_fd, name)
