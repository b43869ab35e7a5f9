"""Live output to a caller's function, apart from the pump and never in its way."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from sandboxed_tools.sandbox.contract import OutputSink
from sandboxed_tools.tool.result import Stream

__all__ = ["LiveView"]

_log = logging.getLogger(__name__)

MAX_WAITING_BYTES = 4 * 1024 * 1024


class LiveView:
    """Hands pieces to ``sink`` on a thread of its own, in order.

    The pump that reads the engine must never wait (a stalled reader of an attach stream blocks the
    engine for that container), so when the sink falls ``MAX_WAITING_BYTES`` behind, new pieces are
    dropped here and counted. A sink that raises is not called again. ``finish`` is called on the
    same thread after the last piece.
    """

    def __init__(self, sink: OutputSink, *, finish: Callable[[], None] = lambda: None) -> None:
        self._sink = sink
        self._finish = finish
        self._waiting: deque[tuple[Stream, bytes]] = deque()
        self._waiting_bytes = 0
        self._condition = threading.Condition()
        self._closed = False
        self.dropped_bytes = 0
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="sandbox-live-output", daemon=True)
        self._thread.start()

    def put(self, stream: Stream, data: bytes) -> None:
        """Offer a piece. Never blocks for longer than a lock held for a few instructions."""
        with self._condition:
            if self.error is not None or self._waiting_bytes + len(data) > MAX_WAITING_BYTES:
                self.dropped_bytes += len(data)
                return
            self._waiting.append((stream, data))
            self._waiting_bytes += len(data)
            self._condition.notify()

    def close(self, *, timeout_s: float) -> None:
        """Wait until the sink has everything, at most ``timeout_s``; later pieces are dropped."""
        with self._condition:
            self._closed = True
            self._condition.notify()
        deadline = time.monotonic() + timeout_s
        self._thread.join(max(0.0, deadline - time.monotonic()))
        with self._condition:
            self.dropped_bytes += self._waiting_bytes
            self._waiting.clear()
            self._waiting_bytes = 0

    def _run(self) -> None:
        try:
            self._hand_on()
        finally:
            self._finish()

    def _hand_on(self) -> None:
        while True:
            with self._condition:
                while not self._waiting and not self._closed:
                    self._condition.wait()
                if not self._waiting:
                    return
                stream, data = self._waiting.popleft()
                self._waiting_bytes -= len(data)
            try:
                self._sink(stream, data)
            except Exception as error:  # noqa: BLE001  the caller's own code, on our thread
                _log.warning("the sink for live output raised; it is not called again: %r", error)
                with self._condition:
                    self.error = error
                    self.dropped_bytes += self._waiting_bytes
                    self._waiting.clear()
                    self._waiting_bytes = 0
                return
