"""Carrying one prepared call out: ask, record, run, present."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from sandboxed_tools.errors import NotMovable, PermissionDenied
from sandboxed_tools.policy import Confirmer, Placement, Scope, authorize
from sandboxed_tools.runtime.call_context import CallContext
from sandboxed_tools.runtime.command_run import CommandRun
from sandboxed_tools.runtime.large_results import LargeResults
from sandboxed_tools.runtime.live_policy import LivePolicy
from sandboxed_tools.runtime.prepared import ContainerOptions, PreparedCall, judged
from sandboxed_tools.runtime.recorder import CallRecorder
from sandboxed_tools.runtime.result import CallResult
from sandboxed_tools.runtime.session import Session
from sandboxed_tools.runtime.work import do_work, present, tell_progress
from sandboxed_tools.sandbox.contract import OutputSink, Sandbox
from sandboxed_tools.tool import Limits, PermissionDecision
from sandboxed_tools.tool.context import issue_ticket

if TYPE_CHECKING:
    from sandboxed_tools.runtime.move import Move

__all__ = ["CallRunner"]


class CallRunner:
    """The second half of every call of one Toolbox. Made inside the event loop."""

    def __init__(
        self,
        *,
        policy: LivePolicy,
        options: ContainerOptions,
        limits: Limits,
        confirmer: Confirmer | None,
        recorder: CallRecorder,
        results: LargeResults,
        resources: Mapping[type, object],
        session: Session | None,
        open_sandbox: Callable[[], Awaitable[Sandbox]],
    ) -> None:
        self._policy = policy
        self._options = options
        self._limits = limits
        self._confirmer = confirmer
        self._confirm_lock = anyio.Lock()
        self._recorder = recorder
        self._results = results
        self._resources = resources
        self._session = session
        self._open_sandbox = open_sandbox

    async def carry_out(
        self,
        call_id: str,
        prepared: PreparedCall,
        *,
        on_output: OutputSink | None,
        on_progress: Callable[[Any], None] | None,
        on_start: Callable[[Placement], None] | None,
    ) -> CallResult[Any]:
        """Carry it out. ``on_start`` is called when nothing can refuse the call any more.

        Raises:
            SandboxedToolsError: as ``Toolbox.call``.
        """
        started = time.monotonic()
        tool = prepared.entry.tool
        try:
            move = self._move(prepared)
            decision = await self._authorized(prepared)
            run = self._command_run(prepared, on_output)
            timeout_s = None if tool.runs_commands else prepared.timeout_s
        except BaseException as error:
            await self._recorder.refused(
                call_id, tool=tool.name, error=error, policy=prepared.policy, prepared=prepared
            )
            raise
        await self._recorder.intent(call_id, prepared, decision, run.spec if run else None)
        if on_start is not None:
            on_start(prepared.placement)
        context = CallContext(
            ticket=issue_ticket(tool, prepared.tool_input),
            call_id=call_id,
            cwd=self._session.cwd if self._session else None,
            resources=self._resources,
            session=self._session,
            execute=run.execute if run and tool.runs_commands else None,
            on_progress=partial(tell_progress, tool, on_progress),
        )
        failure: BaseException | None = None
        try:
            if move is not None and run is not None:
                work = partial(move.call, execute=run.execute)
                output = await do_work(tool, prepared.tool_input, context, work=work)
            else:
                output = await do_work(tool, prepared.tool_input, context, timeout_s=timeout_s)
            shown = await present(tool, output, results=self._results, call_id=call_id)
        except BaseException as error:
            failure = error
            raise
        finally:
            await self._recorder.outcome(
                call_id,
                prepared,
                placement=run.placement if run else prepared.placement,
                result=context.exec_result,
                error=failure,
                duration_s=time.monotonic() - started,
            )
        return CallResult(
            tool=tool.name,
            output=output,
            text=shown.for_model,
            shown=shown.for_person,
            placement=run.placement if run else prepared.placement,
            decision=decision,
            exec=context.exec_result,
            duration_s=time.monotonic() - started,
            call_id=call_id,
        )

    def _move(self, prepared: PreparedCall) -> Move | None:
        """A Python tool's call that belongs in a container, packed before anybody is asked.

        Raises:
            NotMovable: it cannot travel.
        """
        tool = prepared.entry.tool
        is_moved = prepared.placement.where == "container" and not tool.runs_commands
        if not is_moved or prepared.decision.behavior == "deny":
            return None
        # Imported late: only a moved call needs what packs functions.
        from sandboxed_tools.runtime.move import Move

        try:
            return Move.of(tool)
        except NotMovable as error:
            why = prepared.placement.reasons[0].message
            raise NotMovable(
                f"{error} It belongs in a container here: {why}.",
                operator_detail=error.operator_detail,
            ) from error

    async def _authorized(self, prepared: PreparedCall) -> PermissionDecision:
        """The decision that lets the call run.

        Raises:
            PermissionDenied: it may not run, or not where it belongs.
        """
        tool = prepared.entry.tool
        if prepared.decision.behavior != "deny":
            if tool.requires_user_interaction() and self._confirmer is None:
                raise PermissionDenied(f"{tool.name} needs a person at hand, and there is none.")
            self._options.check(tool, prepared.placement, prepared.policy.policy)
        if prepared.decision.behavior != "ask" or self._confirmer is None:
            return await self._authorize(prepared)
        # One question at a time; an answer may have settled the next question as well.
        async with self._confirm_lock:
            again = judged(
                prepared, granted=self._policy.granted, options=self._options, scope=self._scope
            )
            return await self._authorize(again)

    async def _authorize(self, prepared: PreparedCall) -> PermissionDecision:
        return await authorize(
            prepared.entry.tool,
            prepared.tool_input,
            prepared.decision,
            prepared.placement,
            confirmer=self._confirmer,
            scope=self._scope,
            remember=self._policy.grant,
        )

    @property
    def _scope(self) -> Scope:
        session = self._session
        return Scope(session.workspace, session.cwd) if session else Scope(None, None)

    def _command_run(
        self, prepared: PreparedCall, on_output: OutputSink | None
    ) -> CommandRun | None:
        """What runs the call's command; ``None`` for a Python function on the host."""
        if prepared.placement.where == "host" and not prepared.entry.tool.runs_commands:
            return None
        policy = prepared.policy.policy
        spec = self._options.spec(
            self._session,
            tool=prepared.entry.tool,
            is_read_only=prepared.flags.is_read_only,
            limits=prepared.limits(self._limits),
            policy=policy,
        )
        return CommandRun(
            prepared.placement,
            spec=spec,
            session=self._session,
            policy=policy,
            open_sandbox=self._open_sandbox,
            on_output=on_output,
            retries=prepared.entry.tool.max_retries if prepared.flags.is_idempotent else 0,
        )
