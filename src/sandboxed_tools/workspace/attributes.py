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


def restore_attributes(dir_fd: int, name: bytes, original: Found | None) -> None:
    """Give an entry exactly the attributes, access lists and label of its original. Blocking.

    It loses its capabilities (capabilities(7)). Those stay by which our own overlays remember
    things. What the file system cannot hold, or a security module does not allow, is left out.

    Raises:
        OSError: they cannot be read or written.
    """
    found = () if original is None else _attributes(original.dir_fd, original.name)
    wanted = {key: value for key, value in found if key.startswith(_RESTORED)}
    place = _place(dir_fd, name)
    for key, value in list(_attributes(dir_fd, name)):
        if wanted.get(key) == value:
            del wanted[key]
        elif key not in wanted:
            with _as_far_as_possible() if key.startswith(_SECURITY) else nullcontext():
                os.removexattr(place, key, follow_symlinks=False)
    for key, value in wanted.items():
        with _as_far_as_possible():
            os.setxattr(place, key, value, follow_symlinks=False)
    _drop_capabilities(place)


@contextmanager
def _as_far_as_possible() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _ABSENT:
            raise


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
        if key.startswith(_COMPARED) and key != _CAPABILITIES and not key.startswith(own_marks()):
            yield key, os.getxattr(place, key, follow_symlinks=False)


def _place(dir_fd: int, name: bytes) -> bytes:
    # There is no call that takes a name in an open folder.
    return b"/proc/self/fd/%d/%b" % (dir_fd, name)
