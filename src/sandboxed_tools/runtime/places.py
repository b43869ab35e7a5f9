"""What the calls of one Toolbox work on: a workspace, its session, and where results are kept."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio.to_thread

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.host import gate_status
from sandboxed_tools.policy import Policy, Scope
from sandboxed_tools.runtime.large_results import LargeResults
from sandboxed_tools.runtime.live_policy import LivePolicy
from sandboxed_tools.runtime.session import Session
from sandboxed_tools.tool import Environment
from sandboxed_tools.workspace import Decision, EditJournal, FileStateCache, WorkspaceRoot

__all__ = ["Places"]


class Places:
    """Opened when a Toolbox is entered, and closed with it; ``resources`` are the host tools'.

    ``root`` and ``session`` are ``None`` for calls without files.
    """

    def __init__(self) -> None:
        self.root: WorkspaceRoot | None = None
        self.session: Session | None = None
        self.results: LargeResults | None = None
        self._file_states = FileStateCache()
        self.resources: dict[type, object] = {FileStateCache: self._file_states}
        self._host_gate = False

    async def open(
        self, workspace: str | Path | None, *, session: str | None, policy: LivePolicy
    ) -> LargeResults:
        """Open everything; what was opened before something fails is for :meth:`close`.

        Raises:
            InvalidWorkspace, ConfigurationError: as the Toolbox.
        """
        results = self.results = await anyio.to_thread.run_sync(LargeResults.open)
        if workspace is not None:
            open_root = partial(policy.open_root, Path(workspace), also_readable=results.readable)
            root = self.root = await anyio.to_thread.run_sync(open_root)
            self.resources[WorkspaceRoot] = root
            open_session = partial(Session.open, root, name=session)
            self.session = await anyio.to_thread.run_sync(open_session)
            self.resources[EditJournal] = self.session.journal
        self._host_gate = (await anyio.to_thread.run_sync(gate_status)).available
        return results

    def close(self) -> None:
        if self.root is not None:
            self.root.close()
        if self.results is not None:
            self.results.close()

    @property
    def workspace(self) -> Path | None:
        """The resolved path of the workspace."""
        return self.root.path if self.root else None

    @property
    def scope(self) -> Scope:
        """Where relative paths of rules and calls start at this moment."""
        return Scope(self.workspace, self.session.cwd if self.session else None)

    def environment(self, policy: Policy) -> Environment:
        """What tools are told of this place."""
        return Environment(
            workspace=self.workspace,
            read_roots=tuple(Path(root) for root in policy.read_roots),
            trusted_workspace=policy.trusted_workspace,
            host_gate=self._host_gate,
            extra_specs=policy.program_specs or None,
        )

    # ---- held changes

    def known_session(self) -> Session:
        """The session.

        Raises:
            ConfigurationError: there is no workspace.
        """
        if self.session is None:
            raise ConfigurationError("This Toolbox has no workspace, so there are no changes.")
        return self.session

    async def apply(
        self,
        change_set_id: str,
        *,
        force: bool,
        allow_protected: bool,
        protected: tuple[str, ...],
    ) -> Decision:
        work = partial(
            self.known_session().apply,
            change_set_id,
            force=force,
            allow_protected=allow_protected,
            protected=protected,
        )
        return self._forgotten(await anyio.to_thread.run_sync(work))

    async def discard(self, change_set_id: str) -> Decision:
        return await anyio.to_thread.run_sync(self.known_session().discard, change_set_id)

    async def undo(self, change_set_id: str | None, *, force: bool) -> Decision | None:
        work = partial(self.known_session().undo, change_set_id, force=force)
        decision = await anyio.to_thread.run_sync(work)
        return None if decision is None else self._forgotten(decision)

    def _forgotten(self, decision: Decision) -> Decision:
        """What the file tools knew of these files is no longer so."""
        for change in decision.change_set.changes if decision.done else ():
            self._file_states.forget(change.parts)
        return decision
