"""The Docker backend: each call in a container of its own, which is thrown away afterwards."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterable, Awaitable, Callable

import anyio
import anyio.to_thread

from sandboxed_tools.errors import SandboxUnavailable
from sandboxed_tools.sandbox.contract import (
    Capabilities,
    OutputSink,
    SandboxSpec,
    ViewProvider,
)
from sandboxed_tools.sandbox.docker.call import Call
from sandboxed_tools.sandbox.docker.clients import Clients
from sandboxed_tools.sandbox.docker.container import Container, Direct, launch
from sandboxed_tools.sandbox.docker.create import Mould
from sandboxed_tools.sandbox.docker.disposal import Disposal
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.sandbox.docker.images import ResolvedImage, resolve_image
from sandboxed_tools.sandbox.docker.launcher_volume import LauncherVolume
from sandboxed_tools.sandbox.docker.stdin_feed import StdinFeed
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.result import ExecResult

__all__ = ["DockerSandbox", "StopRequest"]

_log = logging.getLogger(__name__)

CANCEL_WAIT_S = 1.0
CLOSE_WAIT_S = 60.0
COLD_LIFETIME_S = 60.0
REMOTE_HEARTBEAT_S = 15.0


class StopRequest:
    """Ends a call from outside and still gives its result: ``status="cancelled"``, output so far.

    For Ctrl-C and the like. Cancelling the task instead gives no result, as cancelling does.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._call: Call | None = None
        self._is_set = False

    def set(self) -> None:
        """Stop the call now, or as soon as it begins. From any thread or signal handler."""
        self._is_set = True
        call = self._call
        if call is not None:
            call.stop()

    def bind(self, call: Call) -> None:
        self._call = call
        if self._is_set:
            call.stop()


class DockerSandbox:
    """Runs commands on a Docker engine. Implements ``sandbox.contract.Sandbox``.

    Safe to use from several threads and event loops (asyncio and trio) at once. ``views`` shows
    workspaces to containers; without it specs with a workspace are refused. ``cgroup_parent`` is
    the operator's: all containers are made below it.
    """

    def __init__(
        self, engine: Engine, *, views: ViewProvider | None = None, cgroup_parent: str = ""
    ) -> None:
        self._engine = engine
        self._views = views
        self._cgroup_parent = cgroup_parent
        self._clients = Clients(engine)
        self._disposal = Disposal(self._clients)
        self._launcher_volume = LauncherVolume(self._clients)
        self._lock = threading.Lock()
        self._calls: set[Call] = set()
        self._closed = False
        self._told: set[str] = set()
        is_remote = engine.endpoint.socket_path is None
        self._around = Call.Surroundings(
            clients=self._clients,
            disposal=self._disposal,
            heartbeat_s=REMOTE_HEARTBEAT_S if is_remote else None,
        )

    async def run(
        self,
        spec: SandboxSpec,
        command: Command,
        on_output: OutputSink | None = None,
        *,
        stop: StopRequest | None = None,
    ) -> ExecResult:
        """See :meth:`sandbox.contract.Sandbox.run`. ``stop`` ends the call with a result."""
        feed = _feed_for(command)
        call = Call(
            command,
            mould=lambda: self._mould(spec),
            source=self,
            surroundings=self._around,
            stdin=feed,
            sink=on_output,
        )
        self._register(call)
        if stop is not None:
            stop.bind(call)
        if isinstance(command.stdin, AsyncIterable) and feed is not None:
            return await _run_with_stream(call, feed, command.stdin, self._execute)
        return await self._execute(call)

    async def capabilities(self) -> Capabilities:
        """Probe what this engine really enforces."""
        from sandboxed_tools.sandbox.docker.probes import probe_engine

        return await anyio.to_thread.run_sync(probe_engine, self._engine)

    async def aclose(self) -> None:
        """End what runs, and wait until no container, volume or mount of this object is left."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.close)

    def close(self) -> None:
        """The blocking form of :meth:`aclose`."""
        with self._lock:
            self._closed = True
            calls = list(self._calls)
        for call in calls:
            call.stop()
        for call in calls:
            call.finished.wait(CLOSE_WAIT_S)
        if not self._disposal.close(timeout_s=CLOSE_WAIT_S):
            _log.error("some containers could not be removed in time; gc will")
        self._clients.close()

    # ---- one call ----

    def _register(self, call: Call) -> None:
        with self._lock:
            if self._closed:
                raise SandboxUnavailable("this sandbox is closed")
            self._calls.add(call)

    async def _execute(self, call: Call) -> ExecResult:
        """Run the blocking call on a thread; on cancellation stop it, and wait for it a little."""

        def work() -> ExecResult:
            try:
                return call.run()
            finally:
                with self._lock:
                    self._calls.discard(call)

        try:
            # An own limiter: the default one is shared by everything in the program, and a call may
            # last for hours.
            return await anyio.to_thread.run_sync(
                work, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
            )
        except anyio.get_cancelled_exc_class():
            call.stop()
            if not call.started.is_set():
                with self._lock:
                    self._calls.discard(call)
                raise
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(
                    call.finished.wait, CANCEL_WAIT_S, limiter=anyio.CapacityLimiter(1)
                )
            raise

    def take(
        self, mould: Mould, *, direct: Direct | None, is_wanted: Callable[[], bool]
    ) -> Container:
        """Make a container for this very call."""
        return launch(
            self._engine,
            self._clients,
            mould,
            kind="call",
            lifetime_s=COLD_LIFETIME_S,
            views=self._views,
            direct=direct,
            is_wanted=is_wanted,
        )

    def _mould(self, spec: SandboxSpec) -> Mould:
        with self._clients.lend() as api:
            image = resolve_image(api, spec.image)
        if image.has_launcher:
            return Mould(spec, image, "image", cgroup_parent=self._cgroup_parent)
        volume = self._launcher_volume.name()
        if volume is None:
            self._tell_once(image)
            return Mould(spec, image, "none", cgroup_parent=self._cgroup_parent)
        return Mould(spec, image, "volume", volume, cgroup_parent=self._cgroup_parent)

    def _tell_once(self, image: ResolvedImage) -> None:
        with self._lock:
            if image.id in self._told:
                return
            self._told.add(image.id)
        _log.warning(
            "the image %s runs without our launcher, because the launcher image is not on the "
            "engine: no figures, no warm start; build it with 'sandboxed-tools images build'",
            image.reference,
        )


def _feed_for(command: Command) -> StdinFeed | None:
    if command.stdin is None:
        return None
    return StdinFeed(command.stdin if isinstance(command.stdin, bytes) else None)


async def _run_with_stream(
    call: Call,
    feed: StdinFeed,
    stream: AsyncIterable[bytes],
    execute: Callable[[Call], Awaitable[ExecResult]],
) -> ExecResult:
    """Run the call while a task beside it passes the stream on, never more than a window ahead."""
    failure: list[Exception] = []

    async def pass_on() -> None:
        try:
            async for chunk in stream:
                feed.add(bytes(chunk))
                call.stdin_changed()
                while not await anyio.to_thread.run_sync(
                    lambda: feed.wait_for_room(timeout_s=1.0), abandon_on_cancel=True
                ):
                    pass
                if feed.is_abandoned:
                    return
            feed.end()
            call.stdin_changed()
        except Exception as error:  # noqa: BLE001  the caller's own code; raised again below
            failure.append(error)
            call.stop()

    results: list[ExecResult] = []
    async with anyio.create_task_group() as group:
        group.start_soon(pass_on)
        try:
            results.append(await execute(call))
        except Exception as error:  # noqa: BLE001  raised again outside: here it would be wrapped
            failure.append(error)
        group.cancel_scope.cancel()
    if failure:
        raise failure[0]
    return results[0]
