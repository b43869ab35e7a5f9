"""What an overlay can be made of here, found out before the engine is asked to make one.

The options follow Documentation/filesystems/overlayfs.rst of the kernel. There are no redirects
and no metadata-only copies, so the upper folder says by itself, in plain files, what changed.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from sandboxed_tools.tool.mounts import Mount

__all__ = [
    "can_stand_in_options",
    "overlay_refusal",
    "read_only_options",
    "trial_overlay",
    "writable_options",
]

_PLAIN: Final = ("nosuid", "nodev", "redirect_dir=nofollow")
_WRITABLE: Final = ("metacopy=off", "index=off")

_NOT_TRIED: Final = ("nosuid", "nodev", "volatile")

_SYS_FSOPEN: Final = 430
_SYS_FSCONFIG: Final = 431
_FSCONFIG_SET_FLAG: Final = 0
_FSCONFIG_SET_STRING: Final = 1
_FSCONFIG_CMD_CREATE: Final = 6

_TMPFS: Final = 0x01021994
_OVERLAY: Final = 0x794C7630
_UPPER_ALWAYS: Final = {0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0xCA451A4E}
"""ext4, xfs, btrfs, f2fs, bcachefs: they have whiteouts, entry types and user attributes."""

_libc = ctypes.CDLL(None, use_errno=True)


def can_stand_in_options(path: Path) -> bool:
    """Whether mount options carry this path: UTF-8 without separators, escapes and controls."""
    try:
        text = os.fsencode(path).decode("utf-8")
    except UnicodeDecodeError:
        return False
    return text.isprintable() and not any(c in text for c in ',:\\"')


def writable_options(*, privileged: bool, volatile: bool) -> tuple[str, ...]:
    """Options of an overlay with an upper folder.

    Not ``privileged``: ``userxattr`` lets an unprivileged client read which folders are opaque
    (Linux 5.11). ``volatile``: a sync inside the container writes nothing to the host's disk
    (Linux 5.10); such a working folder cannot be used a second time.
    """
    kind = () if privileged else ("userxattr",)
    return (*_PLAIN, *_WRITABLE, *kind, *(("volatile",) if volatile else ()))


def read_only_options() -> tuple[str, ...]:
    """Options of an overlay that has lower folders only."""
    return _PLAIN


def trial_overlay(mount: Mount) -> str | None:
    """Have the kernel make an overlay and drop it, mounted nowhere; what it said against it.

    Takes CAP_SYS_ADMIN. Needs Linux 5.2 (fsopen(2)); an older kernel is a refusal. ``volatile`` is
    left out, because it would mark the working folder as used.
    """
    context = _libc.syscall(ctypes.c_long(_SYS_FSOPEN), b"overlay", ctypes.c_long(1))
    if context < 0:
        return os.strerror(ctypes.get_errno())
    with ExitStack() as stack:
        stack.callback(os.close, context)
        layers = {"lowerdir": mount.lowers}
        if mount.upper:
            layers |= {"upperdir": (mount.upper,), "workdir": (mount.work,)}
        settings = [f"{name}={_short(paths, stack)}" for name, paths in layers.items()]
        for option in (*settings, *mount.options):
            if option not in _NOT_TRIED and not _configure(context, option):
                return f"{option.partition('=')[0]}: {os.strerror(ctypes.get_errno())}"
        if _fsconfig(context, _FSCONFIG_CMD_CREATE, None, None):
            return os.strerror(ctypes.get_errno())
    return None


def _short(paths: tuple[str, ...], stack: ExitStack) -> str:
    # fsconfig(2) takes at most 255 bytes a value.
    fds = [os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for path in paths]
    for fd in fds:
        stack.callback(os.close, fd)
    return ":".join(f"/proc/self/fd/{fd}" for fd in fds)


def overlay_refusal(*, upper_on: Path, lower_on: int) -> str | None:
    """Why these file systems cannot make an overlay, as far as their types tell; else ``None``.

    For a client that may not try it. ``lower_on`` is a descriptor of the workspace.
    """
    upper = _file_system(os.fsencode(upper_on))
    if upper == _TMPFS and _kernel() < (6, 6):
        return "the state folder is on tmpfs, which has no user.* attributes before Linux 6.6"
    if upper not in _UPPER_ALWAYS and upper != _TMPFS:
        return f"the state folder is on a file system (type {upper:#x}) that can be no upper layer"
    if _file_system(f"/proc/self/fd/{lower_on}".encode()) == _OVERLAY:
        return "the workspace is itself on an overlay"
    if _kernel() < (5, 11):
        return "the kernel is older than Linux 5.11, which brought the option userxattr"
    return None


def _configure(context: int, option: str) -> bool:
    name, equals, value = option.partition("=")
    if equals:
        return not _fsconfig(context, _FSCONFIG_SET_STRING, name, value)
    return not _fsconfig(context, _FSCONFIG_SET_FLAG, name, None)


def _fsconfig(context: int, command: int, name: str | None, value: str | None) -> int:
    result: int = _libc.syscall(
        ctypes.c_long(_SYS_FSCONFIG),
        ctypes.c_long(context),
        ctypes.c_long(command),
        None if name is None else name.encode(),
        None if value is None else value.encode(),
        ctypes.c_long(0),
    )
    return result


def _file_system(path: bytes) -> int:
    """The type of the file system (statfs(2)), 0 where it cannot be told."""
    buffer = ctypes.create_string_buffer(512)
    if _libc.statfs(path, buffer):
        return 0
    return ctypes.c_ulong.from_buffer(buffer).value & 0xFFFFFFFF


@functools.cache
def _kernel() -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return (int(match[1]), int(match[2])) if match else (0, 0)
