"""What each client has to itself: a Toolbox, a place in the queue, its results and change sets."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import anyio
from mcp.server.context import ServerRequestContext

from sandboxed_tools.errors import Overloaded
from sandboxed_tools.mcp.artifacts import KeptArtifact, KeptArtifacts
from sandboxed_tools.mcp.confirm import CannotAsk, ask
from sandboxed_tools.mcp.options import ServerOptions
from sandboxed_tools.mcp.roots import choose_workspace, roots_of
from sandboxed_tools.mcp.shared_sandbox import SharedSandbox
from sandboxed_tools.policy import Answer, ConfirmationRequest
from sandboxed_tools.runtime import CallResult, Toolbox
from sandboxed_tools.sandbox.contract import Sandbox
from sandboxed_tools.tool import AnyTool

__all__ = ["Kept", "Session", "Sessions"]

log = logging.getLogger("sandboxed_tools.mcp")

SESSION_HEADER: Final = "mcp-session-id"
MAX_KEPT: Final = 1000
"""Results and change sets that a session remembers, each; the oldest are forgotten first."""
CLOSE_DEADLINE_S: Final = 30.0
SWEEP_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Kept:
    """What a session keeps of one call: the file with all of a result that was too long for a
    model, and files that it gave back."""

    whole: Path | None = None
    artifacts: tuple[KeptArtifact, ...] = ()


class Session:
    """One client. Made and used inside the event loop."""

    def __init__(self, options: ServerOptions, sandbox: Sandbox) -> None:
        self._options = options
        self._sandbox = sandbox
        self._opening = anyio.Lock()
        self._box: Toolbox | None = None
        self._running = anyio.CapacityLimiter(options.side_by_side)
        self._present = 0
        self._is_closing = False
        self._quiet = anyio.Event()
        self.used_at = time.monotonic()
        self.log_level = "debug"
        self.results: dict[str, Path] = {}
        self.change_sets: dict[str, str] = {}
        self.artifacts = KeptArtifacts()
        self.listed: dict[str, tuple[tuple[AnyTool, ...], dict[str, Any]]] = {}
        self.answered: set[str] = set()

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """A place for one call: waits for its turn.

        Raises:
            Overloaded: too many calls of this client wait already.
        """
        if self._present >= self._options.side_by_side + self._options.waiting or self._is_closing:
            raise Overloaded(
                "Too many calls of this client are waiting; call again when some have ended.",
                what="session",
            )
        self._present += 1
        try:
            async with self._running:
                yield
        finally:
            self._leave()

    def _leave(self) -> None:
        self._present -= 1
        self.used_at = time.monotonic()
        if self._is_closing and not self._present:
            self._quiet.set()

    @property
    def is_idle(self) -> bool:
        """Whether nothing was asked of it for as long as a session may be idle."""
        return not self._present and time.monotonic() - self.used_at > self._options.idle_s

    async def toolbox(self, ctx: ServerRequestContext[Any, Any]) -> Toolbox:
        """The client's Toolbox, opened by the first request that needs it.

        Raises:
            ConfigurationError, InvalidWorkspace: the operator's settings cannot be used.
        """
        self.used_at = time.monotonic()
        if self._box is not None:
            return self._box
        async with self._opening:
            if self._box is None:
                self._box = await self._open(ctx)
            return self._box

    def open_tools(self) -> tuple[AnyTool, ...]:
        """The tools of the open Toolbox; none before it is open."""
        self.used_at = time.monotonic()
        return self._box.tools if self._box is not None else ()

    async def _open(self, ctx: ServerRequestContext[Any, Any]) -> Toolbox:
        options = self._options
        roots = await roots_of(ctx) if options.workspaces else []
        box = Toolbox(
            options.tools,
            sandbox=self._sandbox,
            workspace=await choose_workspace(roots, options.workspaces),
            policy=options.policy,
            limits=options.limits,
            image=options.image,
            network=options.network,
            services=dict(options.services),
            changes=options.changes,
            runtime=options.runtime,
            confirmer=self._ask if options.asks else None,
        )
        return await box.__aenter__()

    async def _ask(self, request: ConfirmationRequest) -> Answer:
        """Have the client ask, where the policy lets it, as it is at this moment.

        Raises:
            CannotAsk: it does not.
            QuestionNeeded, CannotAsk: as :func:`ask`.
        """
        if self._box is None or "elicitation" not in self._box.policy.confirm_by:
            raise CannotAsk("the policy's confirm_by does not name elicitation")
        return await ask(request)

    def remember(self, result: CallResult[Any], box: Toolbox) -> Kept:
        """Keep what a result left behind, to be read as a resource."""
        artifacts = self.artifacts.keep(result.call_id, result.output)
        changes = result.exec.changes if result.exec else None
        if changes is not None and changes.id is not None:
            self.change_sets[changes.id] = result.call_id
            _forget_oldest(self.change_sets)
        path = box.results_folder / f"{result.call_id}.txt"
        if not path.is_file():
            return Kept(None, artifacts)
        self.results[result.call_id] = path
        _forget_oldest(self.results)
        return Kept(path, artifacts)

    async def aclose(self) -> None:
        """Close the Toolbox once the last call has ended, or its deadline has passed."""
        self._is_closing = True
        with anyio.CancelScope(shield=True):
            if self._present:
                with anyio.move_on_after(CLOSE_DEADLINE_S):
                    await self._quiet.wait()
            box, self._box = self._box, None
            if box is not None:
                await box.__aexit__(None, None, None)


def _forget_oldest(kept: dict[str, Any]) -> None:
    while len(kept) > MAX_KEPT:
        del kept[next(iter(kept))]


class Sessions:
    """The clients of one server. Enter it once; at the end everything of theirs is released."""

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        self._shared = None if options.sandbox is not None else SharedSandbox(options.policy)
        self._sessions: dict[str, Session] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with anyio.CancelScope(shield=True):
            for key in tuple(self._sessions):
                await self.close(key)
            if self._shared is not None:
                await self._shared.aclose()

    def of(self, ctx: ServerRequestContext[Any, Any]) -> Session:
        """The session of whoever sent this request.

        Over HTTP that is the transport's session, whose id the transport has checked already;
        anywhere else there is one client.
        """
        key = ctx.request.headers.get(SESSION_HEADER, "") if ctx.request is not None else ""
        found = self._sessions.get(key)
        if found is None:
            sandbox = self.options.sandbox
            if sandbox is None:
                assert self._shared is not None
                sandbox = self._shared.for_client(key)
            found = self._sessions[key] = Session(self.options, sandbox)
        return found

    async def close(self, key: str) -> None:
        """End a session; does nothing when there is none of this key."""
        session = self._sessions.pop(key, None)
        if session is None:
            return
        try:
            await session.aclose()
        except Exception:
            log.exception("a session could not be closed cleanly")

    async def close_idle_ones(self) -> None:
        """Close sessions that nobody uses, until cancelled."""
        while True:
            await anyio.sleep(SWEEP_S)
            for key, session in tuple(self._sessions.items()):
                if session.is_idle:
                    await self.close(key)
