"""Standard input on its way to the pump: bytes, or pieces that another thread adds."""

from __future__ import annotations

import threading
from collections import deque

from sandboxed_tools.sandbox.docker.protocol import PIECE_BYTES, WINDOW_BYTES

__all__ = ["StdinFeed"]


class StdinFeed:
    """Pieces of standard input, bounded when they come from a stream.

    One thread adds, the pump takes. ``on_change`` is called after every addition.
    """

    def __init__(self, data: bytes | None = None) -> None:
        self._pieces: deque[memoryview] = deque()
        self._bytes = 0
        self._ended = data is not None
        self._abandoned = False
        self._condition = threading.Condition()
        self.is_small = data is not None and len(data) <= WINDOW_BYTES
        if data:
            self._pieces.append(memoryview(data))
            self._bytes = len(data)

    def add(self, data: bytes) -> None:
        with self._condition:
            if data and not self._abandoned:
                self._pieces.append(memoryview(data))
                self._bytes += len(data)

    def end(self) -> None:
        with self._condition:
            self._ended = True

    def wait_for_room(self, *, timeout_s: float) -> bool:
        """Block until less than a window is waiting. ``False``: still full after ``timeout_s``."""
        with self._condition:
            return self._condition.wait_for(
                lambda: self._bytes < WINDOW_BYTES or self._abandoned, timeout_s
            )

    def abandon(self) -> None:
        """The call is over: drop what waits and let the adder go."""
        with self._condition:
            self._abandoned = True
            self._pieces.clear()
            self._bytes = 0
            self._condition.notify_all()

    @property
    def is_abandoned(self) -> bool:
        return self._abandoned

    def take(self, most_bytes: int) -> bytes:
        """The next bytes, at most ``most_bytes`` and at most one frame's worth; may be empty."""
        with self._condition:
            if not self._pieces or most_bytes <= 0:
                return b""
            piece = self._pieces[0]
            size = min(len(piece), most_bytes, PIECE_BYTES)
            if size == len(piece):
                self._pieces.popleft()
            else:
                self._pieces[0] = piece[size:]
            self._bytes -= size
            self._condition.notify_all()
            return bytes(piece[:size])

    @property
    def is_exhausted(self) -> bool:
        with self._condition:
            return self._ended and not self._pieces
