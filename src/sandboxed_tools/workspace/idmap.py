"""A private, read-only look at a folder in which its owner's files belong to somebody else.

The kernel can show a mount with other owners than the disk holds (idmapped mounts, Linux 5.12,
mount_setattr(2)). So a container without any privilege works on files of mode 0600 that belong to
root, without one of them being copied or changed. Making such a mount needs CAP_SYS_ADMIN.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["IdMap", "id_map_lines", "mount_folder", "unmount"]

# The numbers of the common table, which every architecture shares for these calls.
_SYS_OPEN_TREE: Final = 428
_SYS_MOVE_MOUNT: Final = 429
_SYS_MOUNT_SETATTR: Final = 442

# include/uapi/linux/mount.h, include/uapi/linux/fcntl.h
_AT_EMPTY_PATH: Final = 0x1000
_OPEN_TREE_CLONE: Final = 1
_MOVE_MOUNT_F_EMPTY_PATH: Final = 0x4
_ATTR_RDONLY: Final = 0x1
_ATTR_NOSUID: Final = 0x2
_ATTR_NODEV: Final = 0x4
_ATTR_NOATIME: Final = 0x10
_ATTR_ATIME: Final = 0x70
_ATTR_IDMAP: Final = 0x100000
_MS_PRIVATE: Final = 1 << 18
_MNT_DETACH: Final = 2
_UMOUNT_NOFOLLOW: Final = 8

_IDS: Final = 2**32 - 1
"""Ids go from 0 to 2³²-2; the last number means "none"."""
_NAMESPACE_DEADLINE_S: Final = 10.0

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


@dataclass(frozen=True, slots=True)
class IdMap:
    """Who is shown as whom: the disk's user and group, and the ones that the mount shows."""

    disk_uid: int
    disk_gid: int
    shown_uid: int
    shown_gid: int

    @property
    def is_identity(self) -> bool:
        return self.disk_uid == self.shown_uid and self.disk_gid == self.shown_gid


def id_map_lines(disk: int, shown: int) -> str:
    """A map for ``uid_map`` (user_namespaces(7)): ``disk`` becomes ``shown``, others stay.

    A map has no overlaps, so what the disk holds as ``shown`` is not mapped: such files show as
    the overflow user and cannot be changed.
    """
    low, high = sorted((disk, shown))
    ranges = [(0, 0, low), (disk, shown, 1), (low + 1, low + 1, high - low - 1)]
    ranges.append((high + 1, high + 1, _IDS - high - 1))
    return "".join(f"{a} {b} {count}\n" for a, b, count in ranges if count > 0)


def mount_folder(folder_fd: int, target: Path, *, ids: IdMap) -> None:
    """Mount the folder behind ``folder_fd`` at ``target``, shown as ``ids`` say.

    The mount is read-only, nosuid, nodev, noatime, private, and without the mounts that are below
    the folder: an overlay does not look into those either. Blocking; a few milliseconds.

    Raises:
        OSError: the kernel, the file system or our privileges do not allow it.
    """
    tree = _call(_SYS_OPEN_TREE, folder_fd, b"", _OPEN_TREE_CLONE | _AT_EMPTY_PATH | os.O_CLOEXEC)
    try:
        attributes = _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV | _ATTR_NOATIME
        _set_attributes(tree, _MountAttr(attributes, _ATTR_ATIME, _MS_PRIVATE, 0))
        if not ids.is_identity:
            with _user_namespace(ids) as namespace:
                _set_attributes(tree, _MountAttr(_ATTR_IDMAP, 0, 0, namespace))
        _call(_SYS_MOVE_MOUNT, tree, b"", -100, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
    finally:
        os.close(tree)


def unmount(target: Path) -> None:
    """Take away every mount at ``target``, also while it is in use; none there is no error.

    Raises:
        OSError: a mount is there and stays.
    """
    while _libc.umount2(os.fsencode(target), _MNT_DETACH | _UMOUNT_NOFOLLOW) == 0:
        pass
    number = ctypes.get_errno()
    if number not in (errno.EINVAL, errno.ENOENT):
        raise OSError(number, os.strerror(number), str(target))


def _set_attributes(tree: int, attributes: _MountAttr) -> None:
    size = ctypes.sizeof(attributes)
    _call(_SYS_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, ctypes.byref(attributes), size)


def _call(number: int, *arguments: object) -> int:
    # As C longs: a variadic call would take an int, and leave the upper half undefined.
    prepared = [ctypes.c_long(item) if isinstance(item, int) else item for item in arguments]
    result: int = _libc.syscall(ctypes.c_long(number), *prepared)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


@contextmanager
def _user_namespace(ids: IdMap) -> Iterator[int]:
    """A descriptor of a new user namespace with these maps.

    It is made by a child process, because a process with threads cannot enter one (unshare(2)).
    """
    program = shutil.which("unshare", path="/usr/bin:/bin:/usr/sbin:/sbin")
    if program is None:
        raise OSError(errno.ENOENT, "the program unshare (util-linux) is not installed")
    child = subprocess.Popen(
        [program, "--user", "/bin/sh", "-c", "echo; read -r _"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin"},
        cwd="/",
    )
    with child:
        try:
            _await_line(child)
            process = Path(f"/proc/{child.pid}")
            (process / "uid_map").write_text(id_map_lines(ids.disk_uid, ids.shown_uid))
            (process / "gid_map").write_text(id_map_lines(ids.disk_gid, ids.shown_gid))
            namespace = os.open(process / "ns/user", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            child.kill()
    try:
        yield namespace
    finally:
        os.close(namespace)


def _await_line(child: subprocess.Popen[bytes]) -> None:
    assert child.stdout is not None
    with closing(select.epoll()) as poll:
        poll.register(child.stdout, select.EPOLLIN)
        if not poll.poll(_NAMESPACE_DEADLINE_S) or not child.stdout.read(1):
            raise OSError(errno.EPERM, "no user namespace can be made here")
