"""Events on their way to whoever iterates: bounded, and fed from any thread without waiting."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import anyio
import anyio.lowlevel

from sandboxed_tools.runtime.events import Event, Output, Progress
from sandboxed_tools.tool.result import Stream

__all__ = ["Outbox"]

MAX_OUTPUT_BYTES: Final = 8 * 1024 * 1024
MAX_PROGRESS: Final = 10_000


class Outbox:
    """A queue with one reader. Live output and progress that nobody takes are dropped beyond a
    bound; nothing else ever is. Made inside the event loop that reads it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: deque[Event] = deque()
        self._output_bytes = 0
        self._progress = 0
        self._dropped: dict[tuple[str, str], int] = {}
        self._wake = anyio.Event()
        self._loop_thread = threading.get_ident()
        token: Any = anyio.lowlevel.current_token()
        native = getattr(token, "native_token", token)
        self._soon: Callable[[Callable[[], None]], object] = (
            native.call_soon_threadsafe
            if hasattr(native, "call_soon_threadsafe")
            else native.run_sync_soon
        )

    def put(self, event: Event) -> None:
        """Append. From any thread."""
        with self._lock:
            if isinstance(event, Progress):
                if self._progress >= MAX_PROGRESS:
                    return
                self._progress += 1
            self._events.append(event)
        self.wake()

    def put_output(self, call_id: str, stream: Stream, data: bytes) -> None:
        """Append live output, or count it as dropped. From any thread."""
        with self._lock:
            key = (call_id, stream)
            if self._output_bytes + len(data) > MAX_OUTPUT_BYTES:
                self._dropped[key] = self._dropped.get(key, 0) + len(data)
                return
            self._output_bytes += len(data)
            event = Output(call_id, stream, data, self._dropped.pop(key, 0))
            self._events.append(event)
        self.wake()

    def clear(self) -> None:
        """Forget everything that was not taken yet."""
        with self._lock:
            self._events.clear()
            self._dropped.clear()
            self._output_bytes = self._progress = 0
        self.wake()

    def take(self) -> Event | None:
        """The oldest event, or ``None``."""
        with self._lock:
            if not self._events:
                return None
            event = self._events.popleft()
            if isinstance(event, Output):
                self._output_bytes -= len(event.data)
            elif isinstance(event, Progress):
                self._progress -= 1
            return event

    async def changed(self) -> None:
        """Wait until something was put, or :meth:`wake` was called."""
        await self._wake.wait()

    def prepare_wait(self) -> None:
        """Call before looking for what is there, so that no wake-up is lost."""
        if self._wake.is_set():
            self._wake = anyio.Event()

    def wake(self) -> None:
        """Let the reader look again. From any thread; never waits."""
        if threading.get_ident() == self._loop_thread:
            self._wake.set()
            return
        try:
            self._soon(lambda: self._wake.set())
        except RuntimeError:
            # The loop has ended, and nobody reads any more.
            return
