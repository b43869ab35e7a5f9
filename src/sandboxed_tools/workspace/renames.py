"""Renames that never overwrite: to a name that is free, or in exchange with what is there.

renameat2(2) does either in one step. Some file systems (NFS, older ZFS) cannot; there an exchange
takes three renames, and :func:`repair` makes good what a crash between them left.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import hashlib
import os
from collections.abc import Callable
from typing import Final

__all__ = ["exchange", "exchange_names", "move", "repair", "try_exchange_names"]

_NOREPLACE: Final = 1
_EXCHANGE: Final = 2
_UNSUPPORTED: Final = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)
_SYSCALLS: Final = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "armv7l": 382, "s390x": 347}
"""renameat2(2) by machine, for a C library that does not wrap it (musl)."""

_RenameAt2 = Callable[[int, bytes, int, bytes, int], int]


def _find_renameat2() -> _RenameAt2 | None:
    libc = ctypes.CDLL(None, use_errno=True)
    types = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    if hasattr(libc, "renameat2"):
        libc.renameat2.argtypes = types
        found: _RenameAt2 = libc.renameat2
        return found
    number = _SYSCALLS.get(os.uname().machine)
    if number is None:
        return None
    libc.syscall.argtypes = (ctypes.c_long, *types)
    libc.syscall.restype = ctypes.c_long
    return functools.partial(libc.syscall, number)


_renameat2: Final = _find_renameat2()


def move(name: bytes, source_fd: int, target_fd: int) -> None:
    """Move an entry between two folders under the same name, which must be free in the second.

    Raises:
        OSError: EEXIST where it is taken, EXDEV between file systems, and as rename(2).
    """
    try:
        _rename(source_fd, name, target_fd, name, _NOREPLACE)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        if _exists(target_fd, name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        os.rename(name, name, src_dir_fd=source_fd, dst_dir_fd=target_fd)


def exchange(
    name: bytes,
    kept_fd: int,
    shown_fd: int,
    *,
    salt: bytes,
    between: Callable[[], None] | None = None,
) -> None:
    """Let two folders swap what they hold under a name, whatever kinds they are.

    One step where the file system can. Elsewhere the name is missing in ``shown_fd`` for a moment,
    and ``between`` is called before each of the further renames. For that moment ``kept_fd`` has a
    third entry, under a name that ``salt`` makes: whoever filled it must not have known that, or
    an entry of its own could stand there.

    Raises:
        OSError: ENOENT where one is missing, and as rename(2).
    """
    try:
        _rename(kept_fd, name, shown_fd, name, _EXCHANGE)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    else:
        return
    aside = _aside(name, salt)
    between = between or (lambda: None)
    os.rename(name, aside, src_dir_fd=shown_fd, dst_dir_fd=kept_fd)
    between()
    os.rename(name, name, src_dir_fd=kept_fd, dst_dir_fd=shown_fd)
    between()
    os.rename(aside, name, src_dir_fd=kept_fd, dst_dir_fd=kept_fd)


def repair(name: bytes, kept_fd: int, shown_fd: int, *, salt: bytes) -> None:
    """Take back or finish an exchange that was cut off between its renames; else do nothing."""
    aside = _aside(name, salt)
    if not _exists(kept_fd, aside):
        return
    if not _exists(shown_fd, name):
        os.rename(aside, name, src_dir_fd=kept_fd, dst_dir_fd=shown_fd)
    elif not _exists(kept_fd, name):
        os.rename(aside, name, src_dir_fd=kept_fd, dst_dir_fd=kept_fd)


def exchange_names(dir_fd: int, first: bytes, second: bytes) -> None:
    """Let two entries of one folder swap their names, in one step.

    Raises:
        OSError: EINVAL where the file system cannot, and as rename(2).
    """
    _rename(dir_fd, first, dir_fd, second, _EXCHANGE)


def try_exchange_names(dir_fd: int, first: bytes, second: bytes) -> bool:
    """As :func:`exchange_names`; ``False`` where the file system cannot do that.

    Raises:
        OSError: as rename(2).
    """
    try:
        exchange_names(dir_fd, first, second)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return False
        raise
    return True


def _rename(source_fd: int, source: bytes, target_fd: int, target: bytes, flags: int) -> None:
    if _renameat2 is None:
        raise OSError(errno.ENOSYS, "this machine has no known renameat2")
    if _renameat2(source_fd, source, target_fd, target, flags):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fsdecode(source))


def _aside(name: bytes, salt: bytes) -> bytes:
    mark = hashlib.blake2b(name, digest_size=12, salt=salt).hexdigest()
    return f".aside-{mark}".encode()


def _exists(dir_fd: int, name: bytes) -> bool:
    try:
        os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
