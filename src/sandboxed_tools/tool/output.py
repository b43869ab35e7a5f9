"""Collecting output of any size in bounded memory: head and tail kept, everything counted."""

from __future__ import annotations

from collections import deque

__all__ = ["OutputCollector"]


class OutputCollector:
    """Keeps the head and the tail of one stream; memory stays below about twice ``kept_bytes``.

    ``feed`` never blocks and never raises. Not thread-safe: one pump feeds one collector. A cut
    never splits a UTF-8 character that was whole in the stream.
    """

    __slots__ = ("_head", "_head_room", "_tail", "_tail_room", "_tail_size", "total_bytes")

    def __init__(self, *, kept_bytes: int) -> None:
        self._head = bytearray()
        self._head_room = kept_bytes - kept_bytes // 2
        self._tail: deque[bytes] = deque()
        self._tail_room = kept_bytes // 2
        self._tail_size = 0
        self.total_bytes = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream, whatever their number."""
        self.total_bytes += len(data)
        room = self._head_room - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        if len(data) >= self._tail_room:
            self._tail.clear()
            self._tail_size = 0
            data = data[len(data) - self._tail_room :]
        self._append(bytes(data))
        while self._tail and self._tail_size - len(self._tail[0]) >= self._tail_room:
            self._tail_size -= len(self._tail.popleft())

    def _append(self, data: bytes) -> None:
        # Many tiny reads would otherwise cost an object each, many times the bytes they hold.
        if self._tail and len(self._tail[-1]) + len(data) <= 4096:
            self._tail[-1] += data
        else:
            self._tail.append(data)
        self._tail_size += len(data)

    @property
    def truncated(self) -> bool:
        return self.total_bytes > self._head_room + self._tail_room

    def kept(self) -> bytes:
        """What was kept; where something was cut, a line between head and tail says how much."""
        tail = b"".join(self._tail)
        if not self.truncated:
            return bytes(self._head) + tail
        tail = _without_split_start(tail[max(0, len(tail) - self._tail_room) :])
        head = _without_split_end(bytes(self._head))
        cut = self.total_bytes - len(head) - len(tail)
        return head + f"\n[… {cut} bytes cut …]\n".encode() + tail


def _without_split_end(data: bytes) -> bytes:
    """Drop an incomplete UTF-8 sequence at the end; leave anything that is not UTF-8 alone."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if length > back else data
    return data


def _without_split_start(data: bytes) -> bytes:
    """Drop up to three continuation bytes at the start."""
    skip = 0
    while skip < min(3, len(data)) and data[skip] & 0xC0 == 0x80:
        skip += 1
    return data[skip:]
