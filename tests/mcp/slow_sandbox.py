"""A sandbox whose commands last until they are let go, and print what they are told to."""

from __future__ import annotations

import anyio

from sandboxed_tools.sandbox.contract import Capabilities, OutputSink, SandboxSpec
from sandboxed_tools.tool import ChangeSummary, Command, ExecResult


class SlowSandbox:
    """Implements ``Sandbox``; counts the calls that are in it, and those that were cancelled."""

    def __init__(self, *, prints: bytes = b"", changes: ChangeSummary | None = None) -> None:
        self.prints = prints
        self.changes = changes
        self.running = 0
        self.most = 0
        self.cancelled = 0
        self.closed = 0
        self.commands: list[Command] = []
        self.let_go = anyio.Event()

    async def run(
        self, spec: SandboxSpec, command: Command, on_output: OutputSink | None = None
    ) -> ExecResult:
        self.commands.append(command)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if on_output is not None and self.prints:
                on_output("stdout", self.prints)
            await self.let_go.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        return ExecResult(
            "exited",
            exit_code=0,
            stdout=self.prints,
            stdout_bytes=len(self.prints),
            changes=self.changes,
        )

    async def capabilities(self) -> Capabilities:
        return Capabilities("slow", {}, ())

    async def aclose(self) -> None:
        self.closed += 1
