"""One host call while it runs: its streams, its deadlines, and its end."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable
from typing import Final, Literal

import anyio
import anyio.to_thread

from sandboxed_tools.errors import SandboxUnavailable
from sandboxed_tools.host.live import LiveOutput, OutputSink
from sandboxed_tools.host.report import Ended, Report
from sandboxed_tools.host.scratch import Scratch
from sandboxed_tools.host.spare import Supervisor
from sandboxed_tools.host.stragglers import kill_stragglers
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.output import OutputCollector
from sandboxed_tools.tool.result import ExecResult, Limit, Phases, Status, Stream, Usage

__all__ = ["HostCall", "Streams"]

_START_S: Final = 10.0
_KILL_S: Final = 5.0
_DRAIN_S: Final = 1.0
_CHUNK_BYTES: Final = 65_536
# The most that a pipe holds, unless root made it larger (pipe(7)).
_MOST_IN_A_PIPE_BYTES: Final = 1 << 20

_Reason = Literal["timeout", "idle_timeout", "output_limit", "cancelled"]

_TOUCHED: Final[dict[_Reason, Limit]] = {
    "timeout": "wall",
    "idle_timeout": "idle",
    "output_limit": "output",
}
# SIGXCPU and SIGXFSZ, which the kernel sends for RLIMIT_CPU and RLIMIT_FSIZE (setrlimit(2)).
_TOUCHED_BY_SIGNAL: Final[dict[int, Limit]] = {24: "cpu", 25: "file_size"}


class Streams:
    """The pipes of one call: our ends, non-blocking, and the command's ends until it has them."""

    def __init__(self, *, has_stdin: bool) -> None:
        self._open: set[int] = set()
        self.stdout, self.command_stdout = self._pipe()
        self.stderr, self.command_stderr = self._pipe()
        self.stdin: int | None = None
        if has_stdin:
            self.command_stdin, self.stdin = self._pipe()
        else:
            self.command_stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            self._open.add(self.command_stdin)
        for fd in (self.stdout, self.stderr, self.stdin):
            if fd is not None:
                os.set_blocking(fd, False)

    def _pipe(self) -> tuple[int, int]:
        ends = os.pipe()
        self._open |= set(ends)
        return ends

    def close(self, *fds: int) -> None:
        """Close these, or everything that is still open."""
        for fd in fds or tuple(self._open):
            if fd in self._open:
                self._open.remove(fd)
                os.close(fd)

    def hand_over(self) -> None:
        """Close the command's ends here, so that their end is seen when the command has ended."""
        self.close(self.command_stdin, self.command_stdout, self.command_stderr)


class HostCall:
    """A started supervisor and its streams, as :func:`~.launch.launched` gave them."""

    def __init__(
        self,
        supervisor: Supervisor,
        streams: Streams,
        scratch: Scratch,
        *,
        limits: Limits,
        on_output: OutputSink | None,
    ) -> None:
        self.report = Report()
        self._supervisor = supervisor
        self._control = supervisor.control
        self._streams = streams
        self._scratch = scratch
        self._limits = limits
        self._live = LiveOutput(on_output)
        self._collected: dict[Stream, OutputCollector] = {
            "stdout": OutputCollector(kept_bytes=limits.output_kept_bytes),
            "stderr": OutputCollector(kept_bytes=limits.output_kept_bytes),
        }
        self._reason: _Reason | None = None
        self._started = anyio.Event()
        self._started_at = self._last_output_at = anyio.current_time()

    async def run(
        self,
        stdin: bytes | AsyncIterable[bytes] | None,
        *,
        asked_at: float,
        cancel: anyio.Event | None,
    ) -> ExecResult:
        """Serve the streams until every process is dead; ``asked_at`` is when the call began.

        Raises:
            SandboxUnavailable: the gate could not be applied, or the supervisor was lost.
        """
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._live.deliver)
                group.start_soon(self._keep_deadlines)
                group.start_soon(self._feed, stdin)
                if cancel is not None:
                    group.start_soon(self._obey, cancel)
                async with anyio.create_task_group() as pumps:
                    pumps.start_soon(self._pump, "stdout", self._streams.stdout)
                    pumps.start_soon(self._pump, "stderr", self._streams.stderr)
                    await self._follow_report()
                    # Nobody is left who could write, so the pipes end as soon as they are empty.
                    pumps.cancel_scope.deadline = anyio.current_time() + _DRAIN_S
                self._take_what_is_left()
                await self._live.finish()
                group.cancel_scope.cancel()
        finally:
            await self._end()
        return self._result(asked_at=asked_at)

    async def _follow_report(self) -> None:
        while self.report.ended is None and self.report.problem is None:
            await anyio.wait_readable(self._control)
            try:
                data = self._control.recv(_CHUNK_BYTES)
            except BlockingIOError:
                continue
            except ConnectionError:
                data = b""
            if not data:
                self.report.problem = self.report.problem or "the supervisor was lost"
                return
            self.report.feed(data)
            if self.report.started and not self._started.is_set():
                self._started_at = self._last_output_at = anyio.current_time()
                self._started.set()

    async def _pump(self, stream: Stream, fd: int) -> None:
        while True:
            await anyio.wait_readable(fd)
            try:
                data = os.read(fd, _CHUNK_BYTES)
            except BlockingIOError:
                continue
            if not data:
                return
            self._take(stream, data)
            total = sum(item.total_bytes for item in self._collected.values())
            if total > self._limits.output_total_bytes:
                self._ask_to_end("output_limit")

    def _take(self, stream: Stream, data: bytes) -> None:
        self._collected[stream].feed(data)
        self._last_output_at = anyio.current_time()
        self._live.offer(stream, data)

    def _take_what_is_left(self) -> None:
        """Empty both pipes once more: this process may have been kept from its turn for so long."""
        streams: tuple[tuple[Stream, int], ...] = (
            ("stdout", self._streams.stdout),
            ("stderr", self._streams.stderr),
        )
        for stream, fd in streams:
            try:
                data = os.read(fd, _MOST_IN_A_PIPE_BYTES)
            except BlockingIOError:
                continue
            if data:
                self._take(stream, data)

    async def _feed(self, source: bytes | AsyncIterable[bytes] | None) -> None:
        fd = self._streams.stdin
        if fd is None or source is None:
            return
        try:
            if isinstance(source, bytes):
                await _write(fd, source)
            else:
                async for piece in source:
                    await _write(fd, piece)
        except BrokenPipeError:
            # The command does not want more, which is its own business.
            return
        finally:
            self._streams.close(fd)

    async def _keep_deadlines(self) -> None:
        with anyio.move_on_after(_START_S):
            await self._started.wait()
        limits = self._limits
        while True:
            ends: list[tuple[float, _Reason]] = [(self._started_at + limits.wall_s, "timeout")]
            if limits.idle_s is not None:
                ends.append((self._last_output_at + limits.idle_s, "idle_timeout"))
            at, reason = min(ends)
            if at <= anyio.current_time():
                self._ask_to_end(reason)
                await anyio.sleep(_KILL_S)
                await anyio.to_thread.run_sync(self._force_end)
                return
            await anyio.sleep_until(at)

    async def _obey(self, cancel: anyio.Event) -> None:
        await cancel.wait()
        self._ask_to_end("cancelled")

    def _ask_to_end(self, reason: _Reason) -> None:
        """Have everything killed; the first reason is the one that counts."""
        if self._reason is None:
            self._reason = reason
            self._send_request()

    def _send_request(self) -> None:
        try:
            self._control.send(b"k")
        except OSError:
            # The supervisor has ended; its report, or the lack of one, says the rest.
            return

    async def _end(self) -> None:
        """Leave no process behind, whatever happened before, under cancellation too."""
        self._live.close()
        with anyio.CancelScope(shield=True):
            if self.report.ended is None:
                self._send_request()
                with anyio.move_on_after(_KILL_S):
                    await self._read_to_the_end()
            if self.report.ended is None:
                await anyio.to_thread.run_sync(self._force_end)

    async def _read_to_the_end(self) -> None:
        problem, self.report.problem = self.report.problem, None
        await self._follow_report()
        # The first problem is the cause; that the supervisor is gone afterwards follows from it.
        self.report.problem = problem or self.report.problem

    def _force_end(self) -> None:
        """End everything without the supervisor's help: it hangs, or somebody killed it."""
        self._supervisor.kill()
        kill_stragglers(self._scratch)

    def _result(self, *, asked_at: float) -> ExecResult:
        ended = self.report.ended
        if ended is None or not self.report.started:
            raise SandboxUnavailable(
                "The gate for commands on this host failed; the command was not completed.",
                operator_detail=self.report.problem,
            )
        now = anyio.current_time()
        stdout, stderr = self._collected["stdout"], self._collected["stderr"]
        status = self._status(ended)
        truncated = stdout.truncated or stderr.truncated
        by_itself = status in {"exited", "signalled"}
        return ExecResult(
            status=status,
            exit_code=ended.exit_code if by_itself else None,
            signal=ended.signal if by_itself else None,
            stdout=stdout.kept(),
            stderr=stderr.kept(),
            stdout_bytes=stdout.total_bytes,
            stderr_bytes=stderr.total_bytes,
            truncated=truncated,
            limits_hit=self._limits_hit(ended, truncated=truncated),
            usage=Usage(cpu_s=ended.cpu_s, memory_peak_bytes=ended.memory_peak_bytes),
            phases=Phases(start_s=self._started_at - asked_at, run_s=now - self._started_at),
            view="host",
            cwd=ended.cwd,
            warnings=self._live.warnings,
        )

    def _status(self, ended: Ended) -> Status:
        if ended.by_request and self._reason is not None:
            return self._reason
        return "exited" if ended.signal is None else "signalled"

    def _limits_hit(self, ended: Ended, *, truncated: bool) -> frozenset[Limit]:
        hit: set[Limit] = {"output_kept"} if truncated else set()
        if ended.by_request and self._reason in _TOUCHED:
            hit.add(_TOUCHED[self._reason])
        if not ended.by_request and ended.signal in _TOUCHED_BY_SIGNAL:
            hit.add(_TOUCHED_BY_SIGNAL[ended.signal])
        return frozenset(hit)


async def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        await anyio.wait_writable(fd)
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            continue
