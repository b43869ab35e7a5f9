"""Calls into the C library, with nothing but ``_ctypes``: importing ``ctypes`` costs 3 ms."""

import _ctypes
import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["buffer", "getrusage", "ioctl", "number", "poll", "prctl", "syscall", "words"]


class _Byte(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "c"


class _Long(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "l"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Long


_LIBC = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]


def _bound(name: str) -> "Callable[..., int]":
    """The function as one that takes integers, bytes and buffers, and raises OSError on -1."""
    function = _Function(_ctypes.dlsym(_LIBC, name))

    def call(*arguments: object) -> int:
        wide = [_Long(item) if isinstance(item, int) else item for item in arguments]
        # Functions that return int leave the upper half of the register undefined.
        result = int(function(*wide)) & 0xFFFFFFFF
        if result == 0xFFFFFFFF:
            code = _ctypes.get_errno()
            raise OSError(code, posix.strerror(code))
        return result

    return call


syscall = _bound("syscall")
prctl = _bound("prctl")
ioctl = _bound("ioctl")
poll = _bound("poll")
getrusage = _bound("getrusage")


def buffer(size: int, content: bytes = b"") -> "Any":
    """Memory of ``size`` bytes; ``.raw`` is what it holds."""
    kind = type("Bytes", (_ctypes.Array,), {"_type_": _Byte, "_length_": size})
    made = kind()
    made.raw = content + bytes(size - len(content))
    return made


def address(memory: "Any") -> int:
    """Where a buffer lies."""
    return _ctypes.addressof(memory)


def number(data: bytes) -> int:
    """A number in the order of bytes that both supported machines use."""
    return int.from_bytes(data, "little")


def words(*values: int, width: int = 8) -> bytes:
    """Numbers one after the other, ``width`` bytes each; negative ones in two's complement."""
    return b"".join((value & (256**width - 1)).to_bytes(width, "little") for value in values)
