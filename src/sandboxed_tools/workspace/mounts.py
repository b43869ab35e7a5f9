"""Whether two descriptors are of one mount."""

from __future__ import annotations

import os

__all__ = ["same_mount"]


def same_mount(first_fd: int, second_fd: int) -> bool:
    """Whether both descriptors came through the same mount; a bind of the same disk is another.

    From ``mnt_id`` in proc(5) fdinfo (Linux 3.15). Without /proc the device numbers are compared,
    which takes a bind mount of the same file system for the same mount.
    """
    try:
        return _mount_id(first_fd) == _mount_id(second_fd)
    except OSError:
        return os.fstat(first_fd).st_dev == os.fstat(second_fd).st_dev


def _mount_id(fd: int) -> bytes:
    with open(f"/proc/self/fdinfo/{fd}", "rb") as file:
        for line in file:
            if line.startswith(b"mnt_id:"):
                return line
    raise OSError("the kernel does not name the mount")
