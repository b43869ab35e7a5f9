"""The time that file systems stamp on changes, for comparing with what they stamped."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

__all__ = ["file_time_ns"]


def file_time_ns(folder: Path) -> int:
    """The stamp that a change made now gets, in nanoseconds.

    Stamps come from a coarser clock than time(2), so only a stamp compares with a stamp. Two
    changes within one tick, up to 10 ms, may have the same.
    """
    mark = folder / f".time-{secrets.token_hex(6)}"
    fd = os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        return os.fstat(fd).st_ctime_ns
    finally:
        os.close(fd)
        os.unlink(mark)
