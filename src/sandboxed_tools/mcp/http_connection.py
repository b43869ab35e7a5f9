"""One connection of a client over HTTP: uvicorn's own, and a deadline for what it has to say."""

from __future__ import annotations

import asyncio
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["HEAD_DEADLINE_S", "PromptProtocol"]

HEAD_DEADLINE_S: Final = 10.0


class PromptProtocol(H11Protocol):
    """Closes a connection that does not show the head of a request within ten seconds.

    uvicorn waits without end for a connection's first request, for the rest of a head that has
    begun, and for the rest of a body whose request is answered already. The token stands in the
    head, so anybody at all could keep every place taken that there is for connections. Between two
    requests uvicorn's own ``timeout_keep_alive`` holds, and within a body the guard's deadline.
    """

    _overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._waits_for_a_head():
            self._stop_watching()
        elif self._overdue is None:
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)

    def _waits_for_a_head(self) -> bool:
        return self.conn.their_state is h11.IDLE or self.conn.our_state is h11.DONE

    def _watch(self) -> None:
        self._overdue = self.loop.call_later(HEAD_DEADLINE_S, self._close_if_overdue)

    def _stop_watching(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _close_if_overdue(self) -> None:
        self._overdue = None
        if self._waits_for_a_head():
            self.transport.close()
