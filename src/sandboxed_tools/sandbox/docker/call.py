"""One call from its container to its result, as blocking code with deadlines on one thread."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from sandboxed_tools.errors import SandboxUnavailable
from sandboxed_tools.sandbox.budget import Spent
from sandboxed_tools.sandbox.contract import OutputSink, View
from sandboxed_tools.sandbox.docker.container import Container
from sandboxed_tools.sandbox.docker.create import Mould
from sandboxed_tools.sandbox.docker.direct import direct_command
from sandboxed_tools.sandbox.docker.disk_watch import DiskWatch, exceeds
from sandboxed_tools.sandbox.docker.disposal import force_kill
from sandboxed_tools.sandbox.docker.live import LiveView
from sandboxed_tools.sandbox.docker.outcome import EngineState, Outcome, classify
from sandboxed_tools.sandbox.docker.post_mortem import engine_state
from sandboxed_tools.sandbox.docker.protocol import begin_frame, call_frames, new_mark
from sandboxed_tools.sandbox.docker.pump import Ending, Pump, Pumped
from sandboxed_tools.sandbox.docker.spill import SpillFiles
from sandboxed_tools.sandbox.docker.stdin_feed import StdinFeed
from sandboxed_tools.sandbox.docker.surroundings import Caller, ContainerSource, Surroundings
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.result import ChangeSummary, ExecResult, Limit, Phases

__all__ = ["Call"]

_log = logging.getLogger(__name__)

CLIENT_SILENCE_S = 5.0
"""How much longer than the client the launcher waits before it keeps the deadline itself."""

SETTLE_WAIT_S = 30.0


class Call:
    """One call. :meth:`run` blocks; :meth:`stop` and :meth:`cancel` may come from any thread."""

    def __init__(
        self,
        command: Command,
        *,
        mould: Callable[[Callable[[], bool]], Mould],
        source: ContainerSource,
        surroundings: Surroundings,
        stdin: StdinFeed | None,
        sink: OutputSink | None,
        caller: Caller,
        spill: Path | None = None,
    ) -> None:
        self._command = command
        self._mould = mould
        self._source = source
        self._around = surroundings
        self._stdin = stdin
        self._sink = sink
        self.caller = caller
        self._spill = spill
        self.began_at = time.time()
        self.image = ""
        self.state: Literal["waiting", "starting", "running"] = "waiting"
        self.container_id = ""
        self._lock = threading.Lock()
        self._pump: Pump | None = None
        self._stopped: Ending | None = None
        self._driven_at = self._cpus = 0.0
        self.started = threading.Event()
        self.finished = threading.Event()

    def stop(self, ending: Ending = "stopped") -> None:
        """End the call as soon as possible; the result says ``cancelled``."""
        with self._lock:
            self._stopped = self._stopped or ending
            pump = self._pump
        if pump is not None:
            pump.stop(ending)

    def stdin_changed(self) -> None:
        with self._lock:
            pump = self._pump
        if pump is not None:
            pump.wake()

    def run(self) -> ExecResult:
        """Take a container, run the command in it, and give the container away for removal.

        Raises:
            SandboxUnavailable: the sandbox itself failed.
            InvalidWorkspace: the workspace may not be used.
        """
        self.started.set()
        try:
            if self._stopped:
                return ExecResult(status="cancelled")
            return self._within_budget()
        except SandboxUnavailable:
            if self._stopped:  # while it waited, or while its container was being made
                return ExecResult(status="cancelled")
            raise
        finally:
            self.finished.set()

    def _within_budget(self) -> ExecResult:
        around, key = self._around, self.caller.key
        account = key if self.caller.account is None else self.caller.account
        around.budgets.open_call(account)
        result: ExecResult | None = None
        try:
            queue_s = around.admission.enter(
                key=key, priority=self.caller.priority, is_wanted=self._is_wanted
            )
            around.quiet.begin()
            try:
                result = self._run(queue_s)
            finally:
                around.quiet.end()
            return result
        finally:
            around.budgets.close_call(account, self._spent(result))

    def _spent(self, result: ExecResult | None) -> Spent:
        """What counts against the budget. What nobody has measured whose word counts is as much as
        the limits allowed: else whoever ends the launcher, or brings its own, computes for free.
        """
        cpu_s = None
        if result is not None:
            run_s = result.phases.run_s
            cpu_s = result.usage.cpu_s if result.trusted_report else None
        else:
            run_s = time.monotonic() - self._driven_at if self._driven_at else 0.0
        return Spent(run_s, run_s * self._cpus if cpu_s is None else cpu_s)

    def _is_wanted(self) -> bool:
        return self._stopped is None

    def _run(self, queue_s: float) -> ExecResult:
        begin = time.monotonic()
        self.state = "starting"
        with contextlib.ExitStack() as place:
            place.callback(self._around.admission.leave)
            mould = self._mould(self._is_wanted)
            self.image = mould.image.reference
            direct = direct_command(mould, self._command)
            container = self._source.take(mould, direct=direct, is_wanted=self._is_wanted)
            self.container_id = container.id
            start_s = time.monotonic() - begin
            with contextlib.ExitStack() as unfinished:
                unfinished.callback(self._around.disposal.dispose, container, is_urgent=True)
                self.state = "running"
                self._driven_at, self._cpus = time.monotonic(), mould.spec.limits.cpus
                pumped = self._drive(container, mould.spec.limits)
                outcome = classify(
                    pumped.ending,
                    pumped.report,
                    self._state(container, pumped, mould=mould),
                    has_launcher=mould.launcher != "none",
                )
                result = self._result(
                    container,
                    pumped,
                    outcome,
                    limits=mould.spec.limits,
                    phases=Phases(queue_s=queue_s, start_s=start_s, run_s=pumped.run_s),
                )
                unfinished.pop_all()
            ended = outcome.status in ("exited", "signalled")
            if pumped.report is not None and mould.image.ours:
                return self._settled(container, result, mould=mould, ended=ended)
            self._source.called(mould, view_kind=result.view)
            # Until the processes are gone the place stays taken.
            return self._settled_later(container, result, place.pop_all().close, ended=ended)

    # ---- running ----

    def _drive(self, container: Container, limits: Limits) -> Pumped:
        framed = container.mould.launcher != "none"
        mark = container.mark or (new_mark() if framed else None)
        frames = b""
        if container.mark is not None:
            frames = begin_frame(
                file_bytes=limits.file_bytes,
                deadline_s=limits.wall_s + CLIENT_SILENCE_S,
                heartbeat_s=self._around.heartbeat_s,
            )
        elif mark is not None:
            frames = b"".join(
                call_frames(
                    self._command,
                    mark=mark,
                    cwd=container.cwd,
                    file_bytes=limits.file_bytes,
                    deadline_s=limits.wall_s + CLIENT_SILENCE_S,
                    heartbeat_s=self._around.heartbeat_s,
                )
            )
        with contextlib.ExitStack() as stack:
            spill: LiveView | None = None
            if self._spill is not None:
                files = SpillFiles(self._spill)
                spill = LiveView(files.write, finish=files.close)
            pump = Pump(
                container.connection,
                limits=limits,
                end_mark=mark,
                start_frames=frames,
                stdin=self._stdin,
                channel=self._command.channel,
                live=LiveView(self._sink) if self._sink is not None else None,
                spill=spill,
                on_stuck=lambda: self._kill_later(container),
                heartbeat_s=self._around.heartbeat_s if framed else None,
            )
            with self._lock:
                self._pump = pump
                stopped = self._stopped
            if stopped is not None:
                pump.stop(stopped)
            if container.view is not None:
                # The view may be older than the call: host changes before now are no conflicts.
                container.view.begin()
                stack.enter_context(DiskWatch(container.view, limits=limits, on_full=pump.stop))
            self._around.later.expect()
            return pump.run()

    def _kill_later(self, container: Container) -> None:
        clients = self._around.clients

        def kill() -> None:
            force_kill(clients, container.id)

        self._around.disposal.submit(kill)

    def _state(self, container: Container, pumped: Pumped, *, mould: Mould) -> EngineState | None:
        """The engine's word, where the launcher has not given its own."""
        if pumped.report is not None or pumped.ending not in ("ended", "lost"):
            return None
        clients = self._around.clients

        def asked() -> EngineState | None:
            within_s = time.monotonic() - self._driven_at
            return engine_state(clients, container.id, within_s=within_s)

        state = asked()
        if mould.launcher != "none":
            return state
        # Without a launcher only the engine knows the end: a closed stream is not it.
        left_s = max(0.0, mould.spec.limits.wall_s - pumped.run_s) + 0.5
        deadline = time.monotonic() + left_s
        while state is not None and state.running and time.monotonic() < deadline:
            if self._stopped:
                force_kill(clients, container.id)
            time.sleep(0.02)
            state = asked()
        return state

    # ---- the result ----

    def _result(
        self,
        container: Container,
        pumped: Pumped,
        outcome: Outcome,
        *,
        limits: Limits,
        phases: Phases,
    ) -> ExecResult:
        out, err = pumped.collectors["stdout"], pumped.collectors["stderr"]
        truncated = out.truncated or err.truncated
        hit: set[Limit] = set(outcome.limits_hit)
        if truncated:
            hit.add("output_kept")
        view = container.view
        warnings = list(outcome.warnings)
        if view is not None:
            warnings += view.warnings
            if exceeds(view, limits):
                hit.add("disk")
        if self._spill is not None and not pumped.is_spilled:
            warnings.append("the files with the whole output are not whole")
        if pumped.live_error is not None:
            warnings.append("the function for live output raised and was not called again")
        elif pumped.live_dropped_bytes:
            warnings.append(f"{pumped.live_dropped_bytes} bytes were left out of the live output")
        return ExecResult(
            status=outcome.status,
            exit_code=outcome.exit_code,
            signal=outcome.signal,
            stdout=out.kept(),
            stderr=err.kept(),
            stdout_bytes=out.total_bytes,
            stderr_bytes=err.total_bytes,
            truncated=truncated,
            limits_hit=frozenset(hit),
            usage=outcome.usage,
            phases=phases,
            image=container.mould.image.id,
            view=view.kind if view is not None else "none",
            cwd=outcome.cwd,
            trusted_report=pumped.report is not None and container.mould.image.ours,
            warnings=tuple(warnings),
            frames=tuple(channel.frames) if (channel := self._command.channel) else (),
        )

    def _settled(
        self, container: Container, result: ExecResult, *, mould: Mould, ended: bool
    ) -> ExecResult:
        """Decide about the changes: the launcher has said that every process is dead."""
        try:
            if container.view is None:
                return result
            summary, notes = _settle(container.view, ended=ended)
            return _with(_decided(result, summary, container.view), summary, *notes)
        finally:
            self._around.later.put(
                functools.partial(self._followed, container, mould=mould, view_kind=result.view)
            )

    def _followed(self, container: Container, *, mould: Mould, view_kind: str) -> None:
        """What nobody has to wait for: the used container goes, and others are made."""
        try:
            self._source.called(mould, view_kind=view_kind)
        finally:
            self._around.disposal.dispose(container)

    def _settled_later(
        self,
        container: Container,
        result: ExecResult,
        leave: Callable[[], None],
        *,
        ended: bool,
    ) -> ExecResult:
        """Decide once the engine has removed the container: nobody else's word counts here.

        For a call that ended by itself that is a short wait; a killed one is settled behind the
        caller's back.
        """
        view = container.view
        settled: list[tuple[ChangeSummary, tuple[str, ...]]] = []
        gone = threading.Event()

        def settle() -> None:
            try:
                leave()
                if view is not None:
                    settled.append(_settle(view, ended=ended))
            finally:
                gone.set()

        self._around.disposal.dispose(container, then=settle, is_urgent=True)
        if view is None:
            return result
        if ended:
            gone.wait(SETTLE_WAIT_S)
        if settled:
            summary, notes = settled[0]
            return _with(_decided(result, summary, view), summary, *notes)
        return _with(result, None, "the changes are decided about when the container is gone")


def _settle(view: View, *, ended: bool) -> tuple[ChangeSummary, tuple[str, ...]]:
    """What became of the changes. A disk that does not take them does not take the result along."""
    try:
        return view.settle(ended_by_itself=ended), ()
    except OSError as error:
        _log.exception("the changes of a call could not be kept")
        why = error.strerror or type(error).__name__
        return ChangeSummary(decision="discarded"), (f"the changes are lost: {why}",)


def _decided(result: ExecResult, changes: ChangeSummary, view: View) -> ExecResult:
    """The result with what became of the changes, and with what there is to say about that."""
    return _with(result, changes, *(n for n in view.warnings if n not in result.warnings))


def _with(result: ExecResult, changes: ChangeSummary | None, *notes: str) -> ExecResult:
    return replace(result, changes=changes, warnings=(*result.warnings, *notes))
