"""Renames that never overwrite: to a name that is free, or in exchange with what is there."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Final

__all__ = ["exchange", "exchange_names", "move"]

_NOREPLACE: Final = 1
_EXCHANGE: Final = 2
_SYSCALLS: Final = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "armv7l": 382, "s390x": 347}
"""renameat2(2) by machine, for a C library that does not wrap it (musl)."""

_libc = ctypes.CDLL(None, use_errno=True)


def move(name: bytes, source_fd: int, target_fd: int) -> None:
    """Move an entry between two folders under the same name, which must be free in the second.

    Raises:
        OSError: EEXIST where it is taken, EXDEV between file systems, and as rename(2).
    """
    _rename(source_fd, name, target_fd, name, _NOREPLACE)


def exchange(name: bytes, first_fd: int, second_fd: int) -> None:
    """Let two folders swap what they hold under a name, whatever kinds they are, in one step.

    Raises:
        OSError: ENOENT where one is missing, EINVAL where the file system cannot, as rename(2).
    """
    _rename(first_fd, name, second_fd, name, _EXCHANGE)


def exchange_names(dir_fd: int, first: bytes, second: bytes) -> None:
    """Let two entries of one folder swap their names, in one step. Raises as :func:`exchange`."""
    _rename(dir_fd, first, dir_fd, second, _EXCHANGE)


def _rename(source_fd: int, source: bytes, target_fd: int, target: bytes, flags: int) -> None:
    arguments = (source_fd, source, target_fd, target, flags)
    if hasattr(_libc, "renameat2"):
        result = _libc.renameat2(*arguments)
    else:
        number = _SYSCALLS.get(os.uname().machine)
        if number is None:
            raise OSError(errno.ENOSYS, "this machine has no known renameat2")
        prepared = [ctypes.c_long(item) if isinstance(item, int) else item for item in arguments]
        result = _libc.syscall(ctypes.c_long(number), *prepared)
    if result:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fsdecode(source))
