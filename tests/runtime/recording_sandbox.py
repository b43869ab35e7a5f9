"""A sandbox that records what it is asked to run; for tests of what happens before and after."""

from __future__ import annotations

from sandboxed_tools.errors import SandboxUnavailable
from sandboxed_tools.sandbox.contract import Capabilities, OutputSink, SandboxSpec
from sandboxed_tools.tool import Command, ExecResult


class RecordingSandbox:
    """Implements ``Sandbox``; every run raises ``fault``, as an engine that is down does."""

    def __init__(self, *, fault: SandboxUnavailable | None = None) -> None:
        self.runs: list[tuple[SandboxSpec, Command]] = []
        self.closed = 0
        self._fault = fault

    async def run(
        self, spec: SandboxSpec, command: Command, on_output: OutputSink | None = None
    ) -> ExecResult:
        self.runs.append((spec, command))
        if self._fault is not None:
            raise self._fault
        if on_output is not None:
            on_output("stdout", b"recorded\n")
        return ExecResult("exited", exit_code=0, stdout=b"recorded\n", stdout_bytes=9)

    async def capabilities(self) -> Capabilities:
        return Capabilities("recording", {}, ())

    async def aclose(self) -> None:
        self.closed += 1
