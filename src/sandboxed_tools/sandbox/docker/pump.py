"""One running call: sends the command and its input, takes in everything that comes back.

One thread, one loop, nothing that waits for anybody: a reader of an attach stream that stalls
blocks the engine for that container, for every later request about it (moby issue 41827). So output
is always taken in, however much it is; the kept part is bounded, the rest is counted.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from sandboxed_tools.sandbox.docker.connection import Connection
from sandboxed_tools.sandbox.docker.demultiplexer import Demultiplexer
from sandboxed_tools.sandbox.docker.live import LiveView
from sandboxed_tools.sandbox.docker.protocol import (
    WINDOW_BYTES,
    Frame,
    MarkScanner,
    Report,
    ReportReader,
    frame,
)
from sandboxed_tools.sandbox.docker.stdin_feed import StdinFeed
from sandboxed_tools.tool.frames import FrameChannel
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.output import OutputCollector
from sandboxed_tools.tool.result import Stream

__all__ = ["Ending", "Pump", "Pumped"]

Ending = Literal["ended", "wall", "idle", "output", "disk", "stopped", "lost"]
"""Why the pump stopped: the call ended by itself, one of our own clocks or counts, ``stopped`` from
outside, or ``lost``: the stream ended without the launcher's report."""

REPORT_GRACE_S = 0.45
"""How long a kill through the launcher may take before the engine is asked to kill."""

RETURN_GRACE_S = 0.8
"""How long after a deadline the pump returns at the latest."""

_READ_BYTES = 128 * 1024
_MAX_OUTSTANDING = 16
_STREAMS: dict[int, Stream] = {1: "stdout", 2: "stderr"}


@dataclass(frozen=True, slots=True)
class Pumped:
    """What came of it. ``report`` is ``None`` when the launcher did not get to speak."""

    ending: Ending
    report: Report | None
    run_s: float
    collectors: dict[Stream, OutputCollector]
    live_error: BaseException | None = None
    live_dropped_bytes: int = 0
    is_spilled: bool = False


class Pump:
    """Drives one call over ``connection``. :meth:`run` blocks; :meth:`stop` may come from anywhere.

    ``end_mark`` is ``None`` for a container without a launcher: the streams are then the command's
    alone, standard input is sent as it is, and their end is the end.
    ``on_stuck`` is called once, and must not block, when a kill through the launcher had no effect
    within ``REPORT_GRACE_S``.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        limits: Limits,
        end_mark: bytes | None,
        start_frames: bytes = b"",
        stdin: StdinFeed | None,
        channel: FrameChannel | None = None,
        live: LiveView | None = None,
        spill: LiveView | None = None,
        on_stuck: Callable[[], None],
        heartbeat_s: float | None = None,
    ) -> None:
        self._connection = connection
        self._limits = limits
        self._framed = end_mark is not None
        self._stdin = stdin
        self._channel = channel
        self._live = live
        self._spill = spill
        self._on_stuck = on_stuck
        self._heartbeat_s = heartbeat_s
        self._outbox: deque[memoryview] = deque([memoryview(start_frames)] if start_frames else [])
        self._outstanding: deque[int] = deque()
        self._stdin_sent = stdin is None
        self._collectors: dict[Stream, OutputCollector] = {
            "stdout": OutputCollector(kept_bytes=limits.output_kept_bytes),
            "stderr": OutputCollector(kept_bytes=limits.output_kept_bytes),
        }
        self._scanners = {name: MarkScanner(end_mark or b"") for name in self._collectors}
        self._ended: set[Stream] = set()
        self._reader = ReportReader()
        self._report: Report | None = None
        self._demultiplexer = Demultiplexer()
        self._total_bytes = 0
        self._ending: Ending | None = None
        self._kill_at = float("inf")
        self._is_stuck = False
        self._stop: Ending | None = None
        self._lock = threading.Lock()
        self._bell: socket.socket | None = None
        self._started = self._last_output = self._last_beat = 0.0

    def stop(self, ending: Ending) -> None:
        """End the call from outside, from any thread; :meth:`run` returns within a second."""
        with self._lock:
            self._stop = self._stop or ending
        self.wake()

    def wake(self) -> None:
        """Look again: standard input has grown or ended, or :meth:`stop` was called."""
        with self._lock:
            if self._bell is not None:
                try:
                    self._bell.send(b"!")
                except BlockingIOError:
                    return  # it rings already

    def run(self) -> Pumped:
        """Send, receive, keep the clocks; returns when the call is over or past its deadline."""
        try:
            self._converse()
        finally:
            run_s = time.monotonic() - self._started
            if self._stdin is not None:
                self._stdin.abandon()
            for view in (self._live, self._spill):
                if view is not None:
                    view.close(timeout_s=1.5 if self._ending == "ended" else 0.1)
        return self._result(run_s)

    def _converse(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.setblocking(False)
            with self._lock:
                self._bell = theirs
            try:
                self._loop(ours)
            finally:
                with self._lock:
                    self._bell = None
        for name, scanner in self._scanners.items():
            if name not in self._ended:
                self._keep(name, scanner.finish())
        if self._channel is not None:
            self._print("stdout", self._channel.finish())

    def _result(self, run_s: float) -> Pumped:
        return Pumped(
            ending=self._ending or "lost",
            report=self._report,
            run_s=run_s,
            collectors=self._collectors,
            live_error=self._live.error if self._live else None,
            live_dropped_bytes=self._live.dropped_bytes if self._live else 0,
            is_spilled=self._spill is not None
            and not (self._spill.error or self._spill.dropped_bytes),
        )

    # ---- the loop ----

    def _loop(self, bell: socket.socket) -> None:
        poll = select.poll()
        fd = self._connection.fileno()
        poll.register(bell.fileno(), select.POLLIN)
        poll.register(fd, select.POLLIN)
        room = memoryview(bytearray(_READ_BYTES))
        self._started = self._last_output = self._last_beat = time.monotonic()
        wants_write = False
        while not self._is_over():
            self._check_clocks()
            self._send()
            while self._fill_outbox() and not self._outbox_is_stuck():
                pass
            if wants_write != bool(self._outbox):
                wants_write = not wants_write
                poll.modify(fd, select.POLLIN | (select.POLLOUT if wants_write else 0))
            timeout_s = 0.0 if self._connection.has_buffered() else self._patience_s()
            for ready, _ in poll.poll(timeout_s * 1000):
                if ready == bell.fileno():
                    bell.recv(4096)
            self._receive(room)

    def _is_over(self) -> bool:
        if self._report is not None and len(self._ended) == 2:
            self._ending = self._ending or "ended"
            return True
        if self._ending == "lost":
            return True
        return time.monotonic() >= self._kill_at + RETURN_GRACE_S

    def _patience_s(self) -> float:
        now = time.monotonic()
        if self._ending is None:
            until = self._started + self._limits.wall_s
            if self._limits.idle_s is not None:
                until = min(until, self._last_output + self._limits.idle_s)
            if self._heartbeat_s is not None:
                until = min(until, self._last_beat + self._heartbeat_s / 3)
        else:
            until = self._kill_at + (RETURN_GRACE_S if self._is_stuck else REPORT_GRACE_S)
        return min(max(0.0, until - now), 60.0)

    def _check_clocks(self) -> None:
        now = time.monotonic()
        if self._ending is None:
            with self._lock:
                stop = self._stop
            if stop is not None:
                self._kill(stop)
            elif self._total_bytes > self._limits.output_total_bytes:
                self._kill("output")
            elif now >= self._started + self._limits.wall_s:
                self._kill("wall")
            elif self._limits.idle_s and now >= self._last_output + self._limits.idle_s:
                self._kill("idle")
            elif self._heartbeat_s and now >= self._last_beat + self._heartbeat_s / 3:
                self._last_beat = now
                self._outbox.append(memoryview(frame(Frame.HEARTBEAT)))
        elif not self._is_stuck and now >= self._kill_at + REPORT_GRACE_S:
            self._is_stuck = True
            self._on_stuck()

    def _kill(self, ending: Ending) -> None:
        self._ending = ending
        self._kill_at = time.monotonic()
        if not self._framed:
            self._is_stuck = True
            self._on_stuck()
            return
        # What is half sent must be completed, or the launcher would read the kill as its payload.
        while len(self._outbox) > 1:
            self._outbox.pop()
        self._stdin_sent = True
        self._outbox.append(memoryview(frame(Frame.KILL)))

    # ---- to the container ----

    def _outbox_is_stuck(self) -> bool:
        self._send()
        return bool(self._outbox)

    def _fill_outbox(self) -> bool:
        """Queue what may be sent now; ``False`` when that is nothing."""
        before = len(self._outbox)
        while not self._stdin_sent and len(self._outbox) < 4:
            assert self._stdin is not None
            room = WINDOW_BYTES - sum(self._outstanding)
            full = self._framed and len(self._outstanding) >= _MAX_OUTSTANDING
            piece = b"" if full else self._stdin.take(room)
            if piece:
                self._outbox.append(memoryview(self._framed_piece(piece)))
            elif self._stdin.is_exhausted:
                self._stdin_sent = True
                if self._framed:
                    self._outbox.append(memoryview(frame(Frame.STDIN_END)))
            else:
                break
        return len(self._outbox) > before

    def _framed_piece(self, piece: bytes) -> bytes:
        assert self._stdin is not None
        if not self._framed:
            return piece
        if self._stdin.is_small:
            return frame(Frame.STDIN, piece)
        nonce = os.urandom(16).hex().encode()
        self._scanners["stderr"].expect(nonce)
        self._outstanding.append(len(piece))
        return frame(Frame.STDIN_WITH_NONCE, nonce + piece)

    def _send(self) -> None:
        while self._outbox:
            try:
                sent = self._connection.send(self._outbox[0])
            except OSError:
                self._outbox.clear()  # the receiving side will see the end, or what is left
                self._stdin_sent = True
                return
            if sent is None:
                return
            if sent == len(self._outbox[0]):
                self._outbox.popleft()
            else:
                self._outbox[0] = self._outbox[0][sent:]

    # ---- from the container ----

    def _receive(self, room: memoryview) -> None:
        try:
            size = self._connection.receive_into(room)
        except OSError:
            size = 0
        if size is None:
            return
        if size == 0:
            self._ending = self._ending or "lost"
            self._kill_at = min(self._kill_at, time.monotonic() - RETURN_GRACE_S)
            return
        for number, payload in self._demultiplexer.feed(bytes(room[:size])):
            name = _STREAMS.get(number)
            if name is not None:
                self._take(name, payload)

    def _take(self, name: Stream, payload: bytes) -> None:
        if not self._framed:
            self._keep(name, payload)
            return
        if name in self._ended:
            self._take_report(name, payload)
            return
        scanned = self._scanners[name].feed(payload)
        for _ in range(scanned.acknowledged):
            self._outstanding.popleft()
        self._keep(name, scanned.visible)
        if scanned.ended:
            self._ended.add(name)
            self._take_report(name, scanned.rest)

    def _take_report(self, name: Stream, payload: bytes) -> None:
        if name == "stderr" and self._report is None:
            try:
                self._report = self._reader.feed(payload)
            except (ValueError, KeyError):
                self._ending = "lost"

    def _keep(self, name: Stream, data: bytes) -> None:
        if not data:
            return
        self._last_output = time.monotonic()
        self._total_bytes += len(data)
        if self._channel is not None and name == "stdout":
            data = self._channel.feed(data)
        self._print(name, data)

    def _print(self, name: Stream, data: bytes) -> None:
        if not data:
            return
        self._collectors[name].feed(data)
        for view in (self._live, self._spill):
            if view is not None:
                view.put(name, data)
