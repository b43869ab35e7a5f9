"""The context of one call, and what happens when its work runs a command."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, TypeVar

from sandboxed_tools.errors import NotAuthorized
from sandboxed_tools.runtime.session import Session
from sandboxed_tools.tool import Command, ExecResult
from sandboxed_tools.tool.context import Ticket
from sandboxed_tools.workspace import WorkspaceRoot

__all__ = ["CallContext"]

ResourceT = TypeVar("ResourceT")

log = logging.getLogger("sandboxed_tools.tool")


class CallContext:
    """Implements :class:`~sandboxed_tools.tool.Context` for one call of one Toolbox."""

    def __init__(
        self,
        *,
        ticket: Ticket,
        call_id: str,
        cwd: PurePath | None,
        resources: Mapping[type, object],
        session: Session | None = None,
        execute: Callable[[Command], Awaitable[ExecResult]] | None,
        on_progress: Callable[[Any], None] | None,
    ) -> None:
        self.ticket = ticket
        self.call_id = call_id
        self.cwd = cwd
        self.exec_result: ExecResult | None = None
        self._resources = resources
        self._session = session
        self._execute = execute
        self._on_progress = on_progress

    def resource(self, kind: type[ResourceT]) -> ResourceT:
        """See :meth:`sandboxed_tools.tool.Context.resource`."""
        if kind is WorkspaceRoot and self._session is not None:
            self._session.refuse_while_held()
        found = self._resources.get(kind)
        if not isinstance(found, kind):
            raise NotAuthorized(
                f"This toolbox has no {kind.__name__}. A tool that works on files needs a "
                "workspace: --workspace DIR, or Toolbox(workspace=…)."
            )
        return found

    def progress(self, value: Any) -> None:
        """Report progress; what a listener raises is logged and stops nothing."""
        if self._on_progress is None:
            return
        try:
            self._on_progress(value)
        except Exception:
            log.exception("a progress listener of call %s failed", self.call_id)

    def log(self, message: str) -> None:
        """A line for the operator's log."""
        log.info("call %s: %s", self.call_id, message)

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_s: float | None = None,
    ) -> ExecResult:
        """Refused: a Python function on the host runs no programs.

        Raises:
            NotAuthorized: always; in a container another context answers.
        """
        raise NotAuthorized(
            "A Python tool runs programs only where the whole call is in a container: state "
            "needs_sandbox."
        )

    async def execute(self, command: Command) -> ExecResult:
        """Run a command where this call is placed; only a tool with ``command=`` may.

        Raises:
            NotAuthorized: the tool is a Python function, whose commands nobody has judged.
        """
        if self._execute is None:
            raise NotAuthorized("Only a tool built with command= runs commands.")
        self.exec_result = await self._execute(command)
        return self.exec_result
