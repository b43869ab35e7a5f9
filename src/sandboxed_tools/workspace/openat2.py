"""The openat2(2) system call, which resolves a path and enforces where it may lead in one step.

Neither Python nor glibc 2.36 wraps it. Its number is 437 wherever Linux numbers calls by the common
table (x86, arm, riscv, s390, ppc); elsewhere the probe finds that it is not there.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
from typing import Final

__all__ = [
    "NO_MAGICLINKS",
    "NO_SYMLINKS",
    "NO_XDEV",
    "RESOLVE_BENEATH",
    "openat2",
    "openat2_available",
]

# include/uapi/linux/openat2.h
NO_XDEV: Final = 0x01
NO_MAGICLINKS: Final = 0x02
NO_SYMLINKS: Final = 0x04
RESOLVE_BENEATH: Final = 0x08

_SYS_OPENAT2: Final = 437
_MAX_RETRIES: Final = 64

_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = [
    ctypes.c_long,
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
]


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def openat2(dir_fd: int, path: bytes, flags: int, *, resolve: int, mode: int = 0) -> int:
    """Open ``path`` relative to ``dir_fd``; the kernel refuses a resolution against ``resolve``.

    ``O_CLOEXEC`` is always added. The kernel answers EAGAIN when a rename anywhere on the system
    raced with the resolution; that is retried 64 times, EINTR without end (PEP 475). With
    ``O_NONBLOCK`` an EAGAIN that stays means that another process holds a lease (open(2)).

    Raises:
        OSError: as open(2), and EXDEV or ELOOP where the resolution was refused.
    """
    how = _OpenHow(flags | os.O_CLOEXEC, mode, resolve)
    reference = ctypes.byref(how)
    retries = 0
    while True:
        fd: int = _syscall(_SYS_OPENAT2, dir_fd, path, reference, ctypes.sizeof(how))
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number == errno.EINTR:
            continue
        retries += 1
        if number != errno.EAGAIN or retries > _MAX_RETRIES:
            raise OSError(number, os.strerror(number), os.fsdecode(path))


@functools.cache
def openat2_available() -> bool:
    """Whether this kernel, and the seccomp filter above us, let openat2 through.

    Kernels before 5.6 answer ENOSYS, older container profiles EPERM.
    """
    try:
        os.close(openat2(-100, b".", os.O_PATH | os.O_DIRECTORY, resolve=NO_MAGICLINKS))
    except OSError:
        return False
    return True
