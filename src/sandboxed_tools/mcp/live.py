"""What a client sees of a call while it runs: progress, and live output as log messages.

Output comes from other threads and is never waited for; what a slow client does not take in time is
dropped from the live view and counted. The result has head and tail in any case.
"""

from __future__ import annotations

import codecs
import threading
import time
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.connection import allowed_log_levels
from mcp.server.context import ServerRequestContext

from sandboxed_tools.tool import AnyTool, for_terminal
from sandboxed_tools.tool.result import Stream

__all__ = ["LiveView"]

TICK_S: Final = 0.1
PROGRESS_S: Final = 1.0
LAST_FLUSH_S: Final = 1.0
MAX_PENDING_BYTES: Final = 256 * 1024
MAX_MESSAGE_BYTES: Final = 32 * 1024
LEVEL: Final[types.LoggingLevel] = "info"
_LEVELS: Final = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)


class LiveView:
    """The live view of one call. ``on_output`` and ``on_progress`` may be called by any thread."""

    def __init__(
        self, ctx: ServerRequestContext[Any, Any], *, tool: AnyTool | None, log_level: str
    ) -> None:
        self._ctx = ctx
        self._tool = tool
        self._wants_output = LEVEL in allowed_log_levels(ctx.protocol_version, ctx.meta) and (
            _LEVELS.index(LEVEL) >= _LEVELS.index(log_level)
        )
        self._lock = threading.Lock()
        self._flushing = anyio.Lock()
        self._pending: list[tuple[Stream, bytes]] = []
        self._pending_bytes = 0
        self._dropped_bytes = 0
        self._seen_bytes = 0
        self._message: str | None = None
        self._decoders = {
            stream: codecs.getincrementaldecoder("utf-8")("replace")
            for stream in ("stdout", "stderr")
        }
        self._began = time.monotonic()
        self._told_at = self._began

    def on_output(self, stream: Stream, data: bytes) -> None:
        with self._lock:
            self._seen_bytes += len(data)
            if not self._wants_output:
                return
            if self._pending_bytes + len(data) > MAX_PENDING_BYTES:
                self._dropped_bytes += len(data)
                return
            self._pending.append((stream, data))
            self._pending_bytes += len(data)

    def on_progress(self, value: Any) -> None:
        """A value that the tool reported itself; the newest is told."""
        text = self._tool.render_progress(value) if self._tool is not None else str(value)
        with self._lock:
            self._message = text

    async def run(self) -> None:
        """Tell until cancelled."""
        while True:
            await anyio.sleep(TICK_S)
            await self._flush()
            if time.monotonic() - self._told_at >= PROGRESS_S:
                await self._tell_progress()

    async def finish(self) -> None:
        """Tell what is left, within a second."""
        with anyio.move_on_after(LAST_FLUSH_S):
            await self._flush()

    async def _flush(self) -> None:
        # One after the other: what came later must not overtake what a slow client keeps waiting.
        async with self._flushing:
            with self._lock:
                taken, self._pending = self._pending, []
                dropped, self._dropped_bytes = self._dropped_bytes, 0
                self._pending_bytes = 0
            for stream, data in _merged(taken):
                text = self._decoders[stream].decode(data)
                if text:
                    await self._log(stream, for_terminal(text))
            if dropped:
                await self._log("stdout", f"[… {dropped} bytes are not shown here …]")

    async def _log(self, stream: Stream, text: str) -> None:
        params = types.LoggingMessageNotificationParams(level=LEVEL, logger=stream, data=text)
        await self._ctx.session.send_notification(
            types.LoggingMessageNotification(params=params),
            related_request_id=self._ctx.request_id,
        )

    async def _tell_progress(self) -> None:
        self._told_at = time.monotonic()
        with self._lock:
            message, seen = self._message, self._seen_bytes
        elapsed_s = self._told_at - self._began
        if message is None:
            message = f"running for {elapsed_s:.0f} s, {seen} bytes of output"
        await self._ctx.session.report_progress(
            round(elapsed_s, 1), None, for_terminal(message, one_line=True)[:500]
        )


def _merged(pieces: list[tuple[Stream, bytes]]) -> list[tuple[Stream, bytes]]:
    """Pieces of one stream in a row as one, up to a message's size."""
    merged: list[tuple[Stream, bytes]] = []
    for stream, data in pieces:
        if merged and merged[-1][0] == stream and len(merged[-1][1]) < MAX_MESSAGE_BYTES:
            merged[-1] = (stream, merged[-1][1] + data)
        else:
            merged.append((stream, data))
    return merged
