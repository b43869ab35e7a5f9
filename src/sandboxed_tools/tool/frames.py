"""Data beside the output: frames that a program in a container writes between what it prints.

A frame travels on stdout in pieces of at most :data:`PIECE_BYTES`, each written at once, so that
nothing that is printed meanwhile can fall into it (a pipe takes up to ``PIPE_BUF`` bytes whole,
pipe(7))::

    0x1e, mark (32 hex digits), kind (a letter), length (4 hex digits), payload

A lower-case kind says that the frame goes on in the next piece of that kind, an upper-case one that
it ends. The mark is made for one call and travels in its standard input, so printed text is not
taken for a frame by accident. It is no proof of anything: the program that was told the mark may
do untrusted work, and whatever comes in a frame is foreign data.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

__all__ = ["MAX_FRAMES", "PIECE_BYTES", "FrameChannel"]

PIECE_BYTES = 3072
"""Payload of one piece; with its head it stays below PIPE_BUF, which is 4096 on Linux."""

MAX_FRAMES = 4096
"""Kept frames of one call; a program that sends more has said nothing that is worth keeping."""

_START = b"\x1e"
_HEAD_BYTES = 1 + 32 + 1 + 4


class FrameChannel:
    """Takes the frames of one call out of its stdout. One call, one channel, one feeding thread.

    ``max_bytes`` bounds all kept payloads together; what goes beyond is dropped, and
    ``is_overfull`` says so. Kinds in ``live_kinds`` are handed to ``on_live`` as they come and are
    not kept; it is called on the thread that reads the engine, so it must not block and not raise.
    """

    def __init__(
        self,
        *,
        max_bytes: int,
        live_kinds: str = "",
        on_live: Callable[[str, bytes], None] | None = None,
    ) -> None:
        self.token = secrets.token_hex(16)
        self.frames: list[tuple[str, bytes]] = []
        self.is_overfull = False
        self._mark = _START + self.token.encode("ascii")
        self._max_bytes = max_bytes
        self._live_kinds = live_kinds
        self._on_live = on_live
        self._kept_bytes = 0
        self._held = b""
        self._parts: dict[str, bytearray] = {}

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes of the stream; returns those that are output."""
        if not self._held and _START not in data:
            return data
        data = self._held + data
        self._held = b""
        visible: list[bytes] = []
        at = 0
        while True:
            start = data.find(_START, at)
            if start < 0:
                visible.append(data[at:])
                break
            visible.append(data[at:start])
            size = self._piece_bytes(data, start)
            if size is None:
                self._held = data[start:]
                break
            if size == 0:
                visible.append(_START)
                at = start + 1
                continue
            head = data[start : start + _HEAD_BYTES]
            self._take(chr(head[33]), data[start + _HEAD_BYTES : start + size])
            at = start + size
        return b"".join(visible)

    def finish(self) -> bytes:
        """What is still held back at the end of the stream: output after all."""
        held, self._held = self._held, b""
        return held

    def _piece_bytes(self, data: bytes, start: int) -> int | None:
        """Size of the piece at ``start``; 0 when it is none, ``None`` when more must come first."""
        seen = data[start : start + len(self._mark)]
        if not self._mark.startswith(seen):
            return 0
        if len(data) - start < _HEAD_BYTES:
            return None
        kind, digits = data[start + 33 : start + 34], data[start + 34 : start + _HEAD_BYTES]
        try:
            length = int(digits, 16) if digits.isalnum() and kind.isalpha() else -1
        except ValueError:
            length = -1
        if not 0 <= length <= PIECE_BYTES:
            return 0
        return _HEAD_BYTES + length if len(data) - start >= _HEAD_BYTES + length else None

    def _take(self, kind: str, payload: bytes) -> None:
        name = kind.upper()
        part = self._parts.setdefault(name, bytearray())
        self._kept_bytes += len(payload)
        if self._kept_bytes > self._max_bytes or len(self.frames) >= MAX_FRAMES:
            self.is_overfull = True
            self._kept_bytes -= len(payload)
            return
        part += payload
        if kind != name:
            return
        del self._parts[name]
        if name not in self._live_kinds:
            self.frames.append((name, bytes(part)))
            return
        self._kept_bytes -= len(part)
        if self._on_live is not None:
            self._on_live(name, bytes(part))
