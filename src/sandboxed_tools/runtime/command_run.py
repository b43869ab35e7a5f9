"""One call's command, run where the call is placed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from sandboxed_tools.errors import EngineFault, EngineNotFound, Overloaded
from sandboxed_tools.host import run_on_host
from sandboxed_tools.policy import Placement, Policy
from sandboxed_tools.runtime.session import Session
from sandboxed_tools.sandbox.contract import OutputSink, Sandbox, SandboxSpec
from sandboxed_tools.tool import Command, ExecResult, Reason, for_terminal
from sandboxed_tools.tool.result import Stream

__all__ = ["CommandRun"]

_PASSING: Final = (EngineFault, EngineNotFound, Overloaded)
"""Faults that may be gone in a moment. An image that is refused stays refused."""

_MAX_RETRIES: Final = 5

log = logging.getLogger("sandboxed_tools")


def _log_retry(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    log.warning("the sandbox failed (%s); attempt %s follows", error, state.attempt_number + 1)


class CommandRun:
    """Runs a command on the host or in the sandbox; ``placement`` says where it ended up.

    The one change of placement that exists goes from the host to the container, when the host gate
    refused something that the command did.
    """

    def __init__(
        self,
        placement: Placement,
        *,
        spec: SandboxSpec,
        session: Session | None,
        policy: Policy,
        open_sandbox: Callable[[], Awaitable[Sandbox]],
        on_output: OutputSink | None,
        retries: int = 0,
    ) -> None:
        self.placement = placement
        self.spec = spec
        self._session = session
        self._policy = policy
        self._open_sandbox = open_sandbox
        self._on_output = on_output
        self._retries = min(max(retries, 0), _MAX_RETRIES)

    async def execute(self, command: Command) -> ExecResult:
        """Run it.

        Raises:
            SandboxUnavailable: the sandbox failed; nothing ran anywhere else instead.
        """
        if command.cwd is None and self._session is not None:
            command = replace(command, cwd=self._session.cwd_in_use)
        result = await self._on_host(command) if self.placement.where == "host" else None
        if result is None:
            result = await self._in_container(command)
        if self._session is not None:
            holds = result.changes is not None and result.changes.decision == "held"
            await anyio.to_thread.run_sync(
                partial(self._session.ended, cwd=result.cwd, holds=holds)
            )
        return result

    async def _in_container(self, command: Command) -> ExecResult:
        """Run it in the sandbox; again after a fault of the sandbox, where that changes nothing.

        Only a call that may be done twice is done twice, only after a fault that may pass, and only
        while nothing of the command has been shown.
        """
        has_shown = False

        def shown(stream: Stream, data: bytes) -> None:
            nonlocal has_shown
            has_shown = True
            if self._on_output is not None:
                self._on_output(stream, data)

        async def attempt() -> ExecResult:
            sandbox = await self._open_sandbox()
            return await sandbox.run(self.spec, command, self._on_output and shown)

        def may_pass(error: BaseException) -> bool:
            return isinstance(error, _PASSING) and not has_shown and command.stdin is None

        try:
            return await attempt()
        except _PASSING as error:
            if not self._retries or not may_pass(error):
                raise
            failed = [error]

        async def next_attempt() -> ExecResult:
            # The fault that has been seen counts as the first attempt.
            if failed:
                raise failed.pop()
            return await attempt()

        retrying = AsyncRetrying(
            retry=retry_if_exception(may_pass),
            stop=stop_after_attempt(1 + self._retries),
            wait=wait_random_exponential(multiplier=0.05, max=2),
            sleep=anyio.sleep,
            before_sleep=_log_retry,
            reraise=True,
        )
        return await retrying(next_attempt)

    async def _on_host(self, command: Command) -> ExecResult | None:
        """The result of a host run; ``None`` when it belongs in the container after all: changes
        are held that the host does not show, or the gate refused something, so it counts not."""
        if self._session is None:
            return None
        if self._session.held():
            self._move(Reason("held_changes", "held changes are not on the host yet"))
            return None
        outcome = await run_on_host(
            command,
            workspace=self._session.workspace,
            read_roots=tuple(Path(root) for root in self._policy.read_roots),
            limits=self.spec.limits,
            on_output=self._on_output,
            trusted_git=self._policy.trusted_workspace,
        )
        if not outcome.denied:
            return outcome.result
        log.error(
            "classifier error: the host gate refused %s to a command judged read-only; "
            "it is run again in the container",
            for_terminal(
                "; ".join(f"{item.call} {item.path or ''}".strip() for item in outcome.denied),
                one_line=True,
            ),
        )
        self._move(Reason("gate_denied", "the host gate refused what the command did"))
        return None

    def _move(self, reason: Reason) -> None:
        self.placement = Placement("container", (reason, *self.placement.reasons))
