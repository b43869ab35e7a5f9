"""Writing frames beside the output; :mod:`sandboxed_tools.tool.frames` is the other side."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

from sandboxed_tools.tool.frames import PIECE_BYTES

__all__ = ["FrameWriter"]


class FrameWriter:
    """Writes frames to its own copy of the container's stdout, whatever becomes of descriptor 1.

    Only the process that made it writes: a forked child that comes back from the work says nothing.
    """

    def __init__(self, token: str) -> None:
        self._head = b"\x1e" + token.encode("ascii")
        self._pid = os.getpid()
        self._lock = threading.Lock()
        # High up, where code that closes descriptors by number seldom looks.
        self._fd = _high_copy(1)

    def send(self, kind: str, payload: bytes) -> None:
        """Send one frame. ``kind`` is an upper-case letter."""
        if os.getpid() != self._pid:
            return
        pieces = [payload[at : at + PIECE_BYTES] for at in range(0, len(payload), PIECE_BYTES)]
        with self._lock:
            for number, piece in enumerate(pieces or [b""], start=1):
                letter = kind if number >= len(pieces) else kind.lower()
                self._write(self._head + f"{letter}{len(piece):04x}".encode("ascii") + piece)

    def send_json(self, kind: str, value: Any) -> None:
        self.send(kind, json.dumps(value).encode("ascii"))

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._fd, left) :]


def _high_copy(fd: int) -> int:
    import fcntl
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, max(3, min(soft, 1024) - 16))
