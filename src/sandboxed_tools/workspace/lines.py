"""Some lines of a file of any size, without loading it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

__all__ = ["LineBudget", "LineSlice", "read_lines"]

_CHUNK_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class LineBudget:
    """What reading lines may use.

    Attributes:
        line_bytes: kept of one line; the rest is counted and dropped.
        total_bytes: kept of all lines together, at least one line.
        scan_bytes: read on the way to the lines; a sparse file can be longer than any disk.
        count_bytes: files up to this size are read to their end, to count their lines.
        wall_s: seconds.
    """

    line_bytes: int = 2000
    total_bytes: int = 200_000
    scan_bytes: int = 16 * 1024**3
    count_bytes: int = 16 * 1024**2
    wall_s: float = 20.0
    is_cancelled: Callable[[], bool] = bool


@dataclass(slots=True)
class LineSlice:
    """Lines that were read.

    Attributes:
        lines: without their line feeds; cut at ``line_bytes``.
        cut: how many bytes were dropped, by index into ``lines``.
        total_lines: lines of the whole file, when its end was reached.
        seen_lines: complete lines in front of the point where reading ended.
        stopped: ``bytes`` (kept enough), ``scan``, ``time`` or ``cancelled``; ``None`` when every
            line that was asked for, or the end, was reached.
        read_bytes: read from the file, kept or not.
    """

    lines: list[bytes] = field(default_factory=list)
    cut: dict[int, int] = field(default_factory=dict)
    total_lines: int | None = None
    seen_lines: int = 0
    stopped: str | None = None
    read_bytes: int = 0


def read_lines(
    fd: int,
    *,
    first: int,
    count: int,
    start_offset: int = 0,
    size_bytes: int = 0,
    budget: LineBudget | None = None,
    sink: Callable[[memoryview], None] | None = None,
) -> LineSlice:
    """Read ``count`` lines from line ``first`` (from 1) of an open regular file.

    Lines end with a line feed; what follows the last one is a line when it is not empty. At most
    ``budget.scan_bytes`` are read, by count and never by the file's size, so that a file that
    grows, or claims eight exabytes, ends too. ``start_offset`` skips a byte order mark.
    ``sink`` is given everything that is read, in order.
    """
    reader = _Reader(fd, first, count, start_offset, budget or LineBudget())
    reader.run(sink or _ignore, to_end=size_bytes <= reader.budget.count_bytes)
    return reader.result


def _ignore(data: memoryview) -> None:
    """Take what nobody wants."""


class _Reader:
    """Chunks in, lines out; ``_line`` is the start of the line under way."""

    def __init__(self, fd: int, first: int, count: int, offset: int, budget: LineBudget) -> None:
        self.budget = budget
        self.result = LineSlice()
        self._fd = fd
        self._first, self._end = first, first + count
        self._offset = offset
        self._kept = 0
        self._line = bytearray()
        self._line_cut = 0
        self._in_line = False
        self._is_full = False

    def run(self, sink: Callable[[memoryview], None], *, to_end: bool) -> None:
        deadline = time.monotonic() + self.budget.wall_s
        buffer = bytearray(_CHUNK_BYTES)
        while True:
            size = os.preadv(self._fd, [buffer], self._offset)
            if not size:
                self._finish()
                return
            self._offset += size
            self.result.read_bytes += size
            sink(memoryview(buffer)[:size])
            self._take(buffer, size)
            if self._is_done and (not to_end or self._offset > 2 * self.budget.count_bytes):
                return
            if self.result.read_bytes >= self.budget.scan_bytes:
                self._stop("scan")
                return
            if time.monotonic() > deadline or self.budget.is_cancelled():
                self._stop("cancelled" if self.budget.is_cancelled() else "time")
                return

    @property
    def _is_done(self) -> bool:
        return self._is_full or self.result.seen_lines + 1 >= self._end

    def _stop(self, why: str) -> None:
        if not self._is_done:
            self.result.stopped = why

    def _finish(self) -> None:
        if self._in_line:
            self._end_line()
        self.result.total_lines = self.result.seen_lines

    def _take(self, buffer: bytearray, size: int) -> None:
        position = 0
        if self.result.seen_lines + 1 < self._first or self._is_done:
            position = self._skip(buffer, size)
        while position < size and not self._is_done:
            feed = buffer.find(b"\n", position, size)
            self._keep(buffer, position, size if feed < 0 else feed)
            if feed < 0:
                return
            self._end_line()
            position = feed + 1
        if position < size:
            self._count_rest(buffer, position, size)

    def _skip(self, buffer: bytearray, size: int) -> int:
        """Pass lines in front of the first one; where in the chunk the first one starts."""
        wanted = self._first - 1 - self.result.seen_lines
        feeds = buffer.count(b"\n", 0, size)
        if self._is_done or feeds < wanted:
            self._count_rest(buffer, 0, size, feeds=feeds)
            return size
        position = 0
        step = size
        # Halving: the counting is done in C, a loop over single line feeds would not be.
        while wanted > 64 and step > 1024:
            step //= 2
            feeds = buffer.count(b"\n", position, position + step)
            if feeds < wanted:
                wanted -= feeds
                self.result.seen_lines += feeds
                position += step
        for _ in range(wanted):
            position = buffer.index(b"\n", position, size) + 1
            self.result.seen_lines += 1
        self._in_line = False
        return position

    def _count_rest(
        self, buffer: bytearray, position: int, size: int, *, feeds: int | None = None
    ) -> None:
        self.result.seen_lines += buffer.count(b"\n", position, size) if feeds is None else feeds
        self._in_line = buffer[size - 1] != 0x0A

    def _keep(self, buffer: bytearray, start: int, end: int) -> None:
        self._in_line = True
        room = self.budget.line_bytes - len(self._line)
        self._line += buffer[start : min(end, start + max(room, 0))]
        self._line_cut += max(0, (end - start) - max(room, 0))

    def _end_line(self) -> None:
        result = self.result
        self._in_line = False
        result.seen_lines += 1
        if not self._first <= result.seen_lines < self._end or self._is_full:
            return
        if result.lines and self._kept + len(self._line) > self.budget.total_bytes:
            self._is_full = True
            result.stopped = "bytes"
            return
        if self._line_cut:
            result.cut[len(result.lines)] = self._line_cut
        self._kept += len(self._line)
        result.lines.append(bytes(self._line))
        self._line.clear()
        self._line_cut = 0
