"""One call's command, run where the call is placed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from sandboxed_tools.host import run_on_host
from sandboxed_tools.policy import Placement, Policy
from sandboxed_tools.sandbox.contract import OutputSink, Sandbox, SandboxSpec
from sandboxed_tools.tool import Command, ExecResult, Reason

__all__ = ["CommandRun"]

log = logging.getLogger("sandboxed_tools")


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
        workspace: Path | None,
        policy: Policy,
        open_sandbox: Callable[[], Awaitable[Sandbox]],
        on_output: OutputSink | None,
    ) -> None:
        self.placement = placement
        self.spec = spec
        self._workspace = workspace
        self._policy = policy
        self._open_sandbox = open_sandbox
        self._on_output = on_output

    async def execute(self, command: Command) -> ExecResult:
        """Run it.

        Raises:
            SandboxUnavailable: the sandbox failed; nothing ran anywhere else instead.
        """
        if self.placement.where == "host":
            result = await self._on_host(command)
            if result is not None:
                return result
        sandbox = await self._open_sandbox()
        return await sandbox.run(self.spec, command, self._on_output)

    async def _on_host(self, command: Command) -> ExecResult | None:
        """The result of a host run; ``None`` when the gate refused something, so it counts not."""
        if self._workspace is None:
            return None
        outcome = await run_on_host(
            command,
            workspace=self._workspace,
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
            "; ".join(f"{item.call} {item.path or ''}".strip() for item in outcome.denied),
        )
        self.placement = Placement(
            "container",
            (
                Reason("gate_denied", "the host gate refused what the command did"),
                *self.placement.reasons,
            ),
        )
        return None
