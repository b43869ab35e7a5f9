"""The renameat2(2) system call: exchanging two names in one step."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Any, Final

__all__ = ["exchange"]

_EXCHANGE: Final = 2
_UNSUPPORTED: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP})


def _wrapper() -> Any:
    # glibc has it since 2.28; where the C library has none, exchange() says so.
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        function.argtypes = [
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_uint,
        ]
    return function


_renameat2 = _wrapper()


def exchange(dir_fd: int, one: bytes, other: bytes) -> bool:
    """Exchange two names in a folder; ``False`` where the file system cannot do that.

    Raises:
        OSError: as rename(2); ENOENT when one of them is not there.
    """
    if _renameat2 is None:
        return False
    if _renameat2(dir_fd, one, dir_fd, other, _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), os.fsdecode(other))
