"""The engine's own framing of two streams in one connection (API: "attach", stream format)."""

from __future__ import annotations

__all__ = ["Demultiplexer"]


class Demultiplexer:
    """Splits the engine's stream: 8-byte headers (stream, 0, 0, 0, length), then payloads.

    Payloads are passed on as they come, so a huge announced length costs nothing.
    """

    __slots__ = ("_header", "_left", "_number")

    def __init__(self) -> None:
        self._header = b""
        self._number = 0
        self._left = 0

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        pieces: list[tuple[int, bytes]] = []
        at = 0
        while at < len(data):
            if self._left == 0:
                missing = 8 - len(self._header)
                self._header += data[at : at + missing]
                at += missing
                if len(self._header) == 8:
                    self._number = self._header[0]
                    self._left = int.from_bytes(self._header[4:], "big")
                    self._header = b""
                continue
            size = min(self._left, len(data) - at)
            pieces.append((self._number, data[at : at + size]))
            self._left -= size
            at += size
        return pieces
