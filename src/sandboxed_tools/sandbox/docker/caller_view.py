"""One sandbox as each of its callers sees it."""

from __future__ import annotations

from typing import Protocol

from sandboxed_tools.sandbox.contract import Capabilities, OutputSink, SandboxSpec
from sandboxed_tools.sandbox.docker.surroundings import Caller
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.result import ExecResult

__all__ = ["CallerView"]


class _Sandbox(Protocol):
    async def run(
        self,
        spec: SandboxSpec,
        command: Command,
        on_output: OutputSink | None = None,
        *,
        caller: Caller,
    ) -> ExecResult: ...

    async def capabilities(self) -> Capabilities: ...


class CallerView:
    """Implements ``Sandbox`` for one caller; the sandbox behind it stays its owner's to close."""

    def __init__(self, sandbox: _Sandbox, caller: Caller) -> None:
        self._sandbox = sandbox
        self._caller = caller

    async def run(
        self, spec: SandboxSpec, command: Command, on_output: OutputSink | None = None
    ) -> ExecResult:
        """See :meth:`sandbox.contract.Sandbox.run`."""
        return await self._sandbox.run(spec, command, on_output, caller=self._caller)

    async def capabilities(self) -> Capabilities:
        return await self._sandbox.capabilities()

    async def aclose(self) -> None:
        """Nothing is this view's own."""
