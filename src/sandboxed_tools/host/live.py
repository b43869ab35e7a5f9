"""Live output for a caller's sink, apart from the pump that reads the command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
import anyio.to_thread

from sandboxed_tools.tool.result import Stream

__all__ = ["LiveOutput", "OutputSink"]

OutputSink = Callable[[Stream, bytes], None]
"""Called in a worker thread with each piece of output, in order. It may be slow or raise."""

_MAX_PIECES: Final = 256
_DRAIN_S: Final = 1.0


class LiveOutput:
    """Hands pieces to a sink. The live view may lose pieces; the result never does."""

    def __init__(self, sink: OutputSink | None) -> None:
        self._sink = sink
        self._send, self._receive = anyio.create_memory_object_stream[tuple[Stream, bytes]](
            _MAX_PIECES
        )
        self._delivered = anyio.Event()
        self.dropped = 0
        self.problem: str | None = None

    def offer(self, stream: Stream, data: bytes) -> None:
        """Take a piece without ever waiting."""
        if self._sink is None or self.problem is not None:
            return
        try:
            self._send.send_nowait((stream, data))
        except anyio.WouldBlock:
            self.dropped += 1

    async def finish(self) -> None:
        """Take no more pieces; what is queued is still delivered, for up to a second."""
        self._send.close()
        with anyio.move_on_after(_DRAIN_S):
            await self._delivered.wait()

    def close(self) -> None:
        """Release the queue, whether or not it was emptied."""
        self._send.close()
        self._receive.close()

    async def deliver(self) -> None:
        """Call the sink until :meth:`finish`; what it raises is kept in ``problem``."""
        async for stream, data in self._receive:
            if self._sink is None or self.problem is not None:
                continue
            try:
                await anyio.to_thread.run_sync(self._sink, stream, data, abandon_on_cancel=True)
            except Exception as error:  # noqa: BLE001 - the sink is the caller's own code
                self.problem = f"the live output sink failed: {type(error).__name__}: {error}"
        self._delivered.set()

    @property
    def warnings(self) -> tuple[str, ...]:
        words = [] if self.problem is None else [self.problem]
        if self.dropped:
            words.append(f"{self.dropped} pieces of live output were dropped: the sink is too slow")
        return tuple(words)
