"""The Docker backend: each call in a container of its own, which is thrown away afterwards."""

from __future__ import annotations

import functools
import logging
import os
import threading
import weakref
from collections.abc import AsyncIterable, Callable
from pathlib import Path

import anyio
import anyio.to_thread

from sandboxed_tools.errors import ConfigurationError, Overloaded, SandboxUnavailable
from sandboxed_tools.sandbox.admission import Admission, AdmissionLimits
from sandboxed_tools.sandbox.budget import Budget, Budgets
from sandboxed_tools.sandbox.contract import (
    Capabilities,
    OutputSink,
    SandboxSpec,
    ViewProvider,
)
from sandboxed_tools.sandbox.docker.call import Call
from sandboxed_tools.sandbox.docker.call_thread import run_on_thread
from sandboxed_tools.sandbox.docker.caller_view import CallerView
from sandboxed_tools.sandbox.docker.clients import Clients
from sandboxed_tools.sandbox.docker.container import Container, launch
from sandboxed_tools.sandbox.docker.create import Mould
from sandboxed_tools.sandbox.docker.direct import Direct
from sandboxed_tools.sandbox.docker.disposal import Disposal
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.sandbox.docker.errands import Errands
from sandboxed_tools.sandbox.docker.later import Later
from sandboxed_tools.sandbox.docker.moulds import Moulds
from sandboxed_tools.sandbox.docker.pool import WARM_LIFETIME_S, Pool
from sandboxed_tools.sandbox.docker.quiet import Quiet
from sandboxed_tools.sandbox.docker.rounds import Rounds
from sandboxed_tools.sandbox.docker.runtimes import Runtimes
from sandboxed_tools.sandbox.docker.status import CallStatus, SandboxStatus
from sandboxed_tools.sandbox.docker.status_file import StatusWriter, others_run
from sandboxed_tools.sandbox.docker.stdin_feed import StdinFeed
from sandboxed_tools.sandbox.docker.stdin_stream import feed_for, run_with_stream
from sandboxed_tools.sandbox.docker.stop import StopRequest
from sandboxed_tools.sandbox.docker.surroundings import Caller, Surroundings
from sandboxed_tools.sandbox.host_guard import HostGuard, HostLimits
from sandboxed_tools.sandbox.machine_slots import MachineSlots
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.result import ExecResult
from sandboxed_tools.tool.state import state_dir

__all__ = ["DockerSandbox", "StopRequest"]

_log = logging.getLogger(__name__)

CLOSE_WAIT_S = 60.0
ERRANDS_WAIT_S = 8.0
"""An engine that has not answered by then to what nobody wants any more is not waited for."""

COLD_LIFETIME_S = 60.0
REMOTE_HEARTBEAT_S = 15.0
LOCAL_HEARTBEAT_S = 60.0
"""A call outlives a client or an engine that went without a word by at most so long: an engine that
is killed, for one, closes no container's standard input."""

FILL_WAIT_S = 1.0
NOBODY = Caller()


class DockerSandbox:
    """Runs commands on a Docker engine. Implements ``sandbox.contract.Sandbox``.

    Safe to use from several threads and event loops (asyncio and trio) at once, and after a fork,
    where the child begins anew. After the first call of a kind, containers for the next ones are
    made ahead of time, unless ``warm`` is false.

    ``views`` shows workspaces to containers; without it specs with a workspace are refused.
    ``cgroup_parent`` is the operator's: all containers are made below it. ``admission``, ``host``
    and ``budget`` bound what all calls together may use, and ``machine`` what the calls of all
    processes may that share its folder.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        views: ViewProvider | None = None,
        warm: bool = True,
        cgroup_parent: str = "",
        admission: AdmissionLimits | None = None,
        machine: MachineSlots | None = None,
        host: HostLimits | None = None,
        budget: Budget | None = None,
    ) -> None:
        self._engine = engine
        self._views = views
        self._warm = warm
        self._cgroup_parent = cgroup_parent
        self._admission_limits = admission
        self._host_limits = host
        self._budget = budget
        self._machine = machine
        self._begin()
        _sandboxes.add(self)

    def _begin(self) -> None:
        """Everything that belongs to this process; made again in a forked child."""
        engine = self._engine
        self._clients = Clients(engine)
        self._quiet = Quiet()
        self._later = Later()
        self._disposal = Disposal(self._clients, quiet=self._quiet)
        self._errands = Errands()
        self._moulds = Moulds(
            self._clients,
            errands=self._errands,
            runtimes=Runtimes(self._clients),
            cgroup_parent=self._cgroup_parent,
        )
        self._pool = Pool(
            make=self._make_warm,
            dispose=self._disposal.dispose,
            views=self._views,
            before_fill=functools.partial(self._quiet.wait, at_most_s=FILL_WAIT_S),
            on_tick=self._look_after,
        )
        self._lock = threading.Lock()
        self._calls: set[Call] = set()
        self._closed = False
        self._rounds = Rounds(self._clients, self._views)
        self._status_writer = StatusWriter(self.status)
        self._guard = HostGuard(self._host_limits, folders=_folders(engine))
        self._around = Surroundings(
            clients=self._clients,
            disposal=self._disposal,
            quiet=self._quiet,
            later=self._later,
            admission=Admission(
                self._admission_limits,
                host_is_full=self._guard.lacking,
                machine=self._machine,
                others_run=others_run,
            ),
            budgets=Budgets(self._budget),
            heartbeat_s=LOCAL_HEARTBEAT_S if engine.endpoint.socket_path else REMOTE_HEARTBEAT_S,
        )

    async def run(
        self,
        spec: SandboxSpec,
        command: Command,
        on_output: OutputSink | None = None,
        *,
        stop: StopRequest | None = None,
        caller: Caller = NOBODY,
        spill: Path | None = None,
    ) -> ExecResult:
        """See :meth:`sandbox.contract.Sandbox.run`. ``stop`` ends the call with a result.

        ``spill`` is a folder of the caller's: the whole output goes into its new files ``stdout``
        and ``stderr``; a warning of the result says when they are not whole.

        Raises:
            OSError: the files of ``spill`` are there already, or cannot be made.
            Overloaded: no place for the call, for this ``caller`` or at all.
            ConfigurationError: a program waits for the call, and the command is another.
        """
        _check_waiting(spec, command)
        feed = feed_for(command)
        if spec.waiting and feed is None:
            feed = StdinFeed(b"")
        call = Call(
            command,
            mould=lambda is_wanted: self._moulds.mould(spec, is_wanted=is_wanted),
            source=self,
            surroundings=self._around,
            stdin=feed,
            sink=on_output,
            caller=caller,
            spill=spill,
        )
        self._register(call)
        if stop is not None:
            stop.bind(call)
        if isinstance(command.stdin, AsyncIterable) and feed is not None:
            return await run_with_stream(call, feed, command.stdin, self._execute)
        return await self._execute(call)

    async def prewarm(self, spec: SandboxSpec, n: int, *, timeout_s: float = 60.0) -> int:
        """Have ``n`` containers for ``spec`` stand ready from now on; 0 ends that.

        Waits until they do, at most ``timeout_s``; returns how many of them do. It is cancelled as
        a call is: what is being made then goes on behind it.

        Raises:
            SandboxUnavailable: they cannot be made, or this sandbox is closed.
        """
        with self._lock:
            if self._closed:
                raise SandboxUnavailable("this sandbox is closed")
        return await anyio.to_thread.run_sync(
            lambda: self._pool.prewarm(self._moulds.mould(spec), n, timeout_s=timeout_s),
            abandon_on_cancel=True,
            limiter=anyio.CapacityLimiter(1),
        )

    def for_caller(self, key: str, *, priority: int = 0) -> CallerView:
        """See :meth:`sandbox.contract.SharedAmongCallers.for_caller`.

        All of them share one budget: a caller could choose another key when its own is used up.
        """
        return CallerView(self, Caller(key=key, priority=priority, account=""))

    async def capabilities(self) -> Capabilities:
        """Probe what this engine really enforces."""
        from sandboxed_tools.sandbox.docker.probes import probe_engine

        probe = functools.partial(probe_engine, self._engine, views=self._views)
        return await anyio.to_thread.run_sync(probe)

    def status(self) -> SandboxStatus:
        """What runs, waits and stands ready in this process now."""
        gate = self._around.admission.status()
        with self._lock:
            calls = tuple(
                CallStatus(
                    state=call.state,
                    began_at=call.began_at,
                    image=call.image,
                    key=call.caller.key,
                    container_id=call.container_id,
                )
                for call in self._calls
            )
        return SandboxStatus(
            calls=calls,
            shelves=tuple(self._pool.status()),
            running=gate.running,
            waiting=gate.waiting,
            held_back_by=gate.held_back_by,
            removing=self._later.pending + self._disposal.pending,
            cleanup_failures=self._disposal.failures,
        )

    async def aclose(self) -> None:
        """End what runs, and wait until no container, volume or mount of this object is left."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.close, limiter=anyio.CapacityLimiter(1))

    def close(self) -> None:
        """The blocking form of :meth:`aclose`; safe to call more than once."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            calls = list(self._calls)
        self._quiet.open()
        for call in calls:
            call.stop()
        for call in calls:
            call.finished.wait(CLOSE_WAIT_S)
        if not self._errands.close(timeout_s=ERRANDS_WAIT_S):
            _log.error("the engine does not answer; gc will remove what it has made by then")
        self._later.close()
        self._pool.close()
        if not self._disposal.close(timeout_s=CLOSE_WAIT_S):
            _log.error("some containers could not be removed in time; gc will")
        self._rounds.close()
        self._moulds.close()
        self._status_writer.close()
        self._clients.close()

    # ---- one call ----

    def _register(self, call: Call) -> None:
        with self._lock:
            if self._closed:
                raise SandboxUnavailable("this sandbox is closed")
            self._calls.add(call)
        self._rounds.begin_when_due()
        self._status_writer.start()

    def _forget(self, call: Call) -> None:
        with self._lock:
            self._calls.discard(call)

    async def _execute(self, call: Call) -> ExecResult:
        return await run_on_thread(call, forget=lambda: self._forget(call))

    def take(
        self, mould: Mould, *, direct: Direct | None, is_wanted: Callable[[], bool]
    ) -> Container:
        """A container off the shelf, or one made for this very call."""
        container = self._pool.take(mould, is_wanted=is_wanted) if self._warm else None
        if container is not None:
            return container
        return self._errands.run(
            lambda: launch(
                self._engine,
                self._clients,
                mould,
                kind="call",
                lifetime_s=COLD_LIFETIME_S,
                views=self._views,
                direct=direct,
                is_wanted=is_wanted,
            ),
            is_wanted=is_wanted,
            give_away=self._give_away,
        )

    def _give_away(self, container: Container) -> None:
        """A container that was started just when its call was given up."""
        container.connection.close()  # that alone ends it, should the rest not be waited for
        self._disposal.dispose(container, is_urgent=True)

    def called(self, mould: Mould, *, view_kind: str) -> None:
        """From the first call of a kind on, containers are made ahead of the next ones."""
        if self._warm:
            self._pool.called(mould, view_kind=view_kind)

    # ---- behind the calls ----

    def _make_warm(self, mould: Mould) -> Container:
        lacking = self._guard.lacking()
        if lacking:
            raise Overloaded(f"nothing is made ahead: {lacking} is the limit", what=lacking)
        return launch(
            self._engine,
            self._clients,
            mould,
            kind="warm",
            lifetime_s=WARM_LIFETIME_S,
            views=self._views,
        )

    def _look_after(self) -> bool:
        for moved in self._moulds.refresh():
            self._pool.replace_image(moved)
        self._rounds.begin_when_due()
        return self._moulds.has_work()


_sandboxes: weakref.WeakSet[DockerSandbox] = weakref.WeakSet()


def _begin_anew() -> None:
    # The threads are the parent's, and locks may be held by threads that are not here; the streams
    # are closed by their own module, so that they are the parent's lease alone.
    for sandbox in _sandboxes:
        sandbox._status_writer.forget()
        sandbox._begin()


os.register_at_fork(after_in_child=_begin_anew)


def _folders(engine: Engine) -> tuple[Path, ...]:
    """Where calls take disk space on this machine."""
    try:
        state = state_dir()
    except ConfigurationError:
        return ()
    root = engine.facts.get("data root", "")
    return (state, Path(root)) if engine.local and root else (state,)


def _check_waiting(spec: SandboxSpec, command: Command) -> None:
    if not spec.waiting:
        return
    if command.argv != spec.waiting or command.env or command.cwd or command.script is not None:
        raise ConfigurationError(
            "The command of a sandbox in which a program waits is that program, without an "
            "environment, a directory or a script of its own."
        )
