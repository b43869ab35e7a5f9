"""Naming the content of a file, a terabyte of holes included."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from typing import Final

__all__ = ["digest_file", "open_to_read"]

_CHUNK_BYTES: Final = 1024 * 1024
_WHOLE_BYTES: Final = 1024**3
"""Up to this size the digest is plain SHA-256; above, blocks of zeros are skipped."""


def open_to_read(name: bytes, *, dir_fd: int) -> int:
    """Open a regular file in a folder without waiting for anybody; the caller closes it.

    Raises:
        OSError: it is a link, no regular file (EINVAL), or may not be read.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    fd = os.open(name, flags, dir_fd=dir_fd)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "no regular file")
    return fd


def digest_file(fd: int) -> str:
    """``sha256:`` and the hash of a regular file; ``sha256-data:`` above 1 GiB.

    The latter covers the size, and the place and content of each mebibyte that is not all zeros, so
    holes cost nothing and a file has one digest whether it is sparse or not.
    """
    size = os.fstat(fd).st_size
    hasher = hashlib.sha256()
    if size <= _WHOLE_BYTES:
        position = 0
        while data := os.pread(fd, _CHUNK_BYTES, position):
            hasher.update(data)
            position += len(data)
        return f"sha256:{hasher.hexdigest()}"
    hasher.update(size.to_bytes(8, "big"))
    position = _next_data(fd, 0, size)
    while position < size:
        data = os.pread(fd, _CHUNK_BYTES, position)
        if not data:
            break
        if data.count(0) != len(data):
            hasher.update(position.to_bytes(8, "big") + data)
        position = _next_data(fd, position + _CHUNK_BYTES, size)
    return f"sha256-data:{hasher.hexdigest()}"


def _next_data(fd: int, position: int, size: int) -> int:
    """The next mebibyte that holds data (lseek(2), SEEK_DATA)."""
    if position >= size:
        return size
    try:
        found = os.lseek(fd, position, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return size
        return position
    return found - found % _CHUNK_BYTES
