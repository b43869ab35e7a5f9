"""Progress and log lines of a moved call, from the thread that reads the engine to their listeners.

That thread never waits: what the listeners do not take in time is dropped and counted.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import anyio.to_thread

__all__ = ["Relay"]

MAX_WAITING = 1000
_END = ("", b"")


class Relay:
    """Calls ``take`` with each piece, in order, on a thread of its own that starts when needed."""

    def __init__(self, take: Callable[[str, bytes], None]) -> None:
        self._take = take
        self._queue: queue.Queue[tuple[str, bytes]] = queue.Queue(MAX_WAITING + 1)
        self._thread: threading.Thread | None = None
        self.dropped = 0

    def put(self, kind: str, payload: bytes) -> None:
        """Offer a piece. Never blocks; called by one thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="moved-call-relay", daemon=True)
            self._thread.start()
        if self._queue.qsize() >= MAX_WAITING:
            self.dropped += 1
            return
        self._queue.put_nowait((kind, payload))

    async def aclose(self, *, timeout_s: float) -> None:
        """Wait until everything is taken, at most ``timeout_s`` or until a cancellation."""
        thread = self._thread
        if thread is not None:
            self._queue.put_nowait(_END)  # the one place that is kept free
            await anyio.to_thread.run_sync(thread.join, timeout_s, abandon_on_cancel=True)

    def _run(self) -> None:
        while (item := self._queue.get()) != _END:
            self._take(*item)
