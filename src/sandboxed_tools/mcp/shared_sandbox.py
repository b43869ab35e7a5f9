"""One sandbox for every client of a server: its warm containers serve whoever calls next.

Sharing it shares nothing of a call with another: a container serves one call and is destroyed.
"""

from __future__ import annotations

import anyio
import anyio.to_thread

from sandboxed_tools.runtime.default_sandbox import open_default_sandbox
from sandboxed_tools.sandbox.contract import Capabilities, OutputSink, Sandbox, SandboxSpec
from sandboxed_tools.tool import Command, ExecResult

__all__ = ["SharedSandbox"]


class SharedSandbox:
    """Implements ``Sandbox`` over the engine that answers here, from the first call on."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()
        self._sandbox: Sandbox | None = None

    async def run(
        self, spec: SandboxSpec, command: Command, on_output: OutputSink | None = None
    ) -> ExecResult:
        """See :meth:`Sandbox.run`; EngineNotFound as well, and then the next call tries again."""
        return await (await self._opened()).run(spec, command, on_output)

    async def capabilities(self) -> Capabilities:
        return await (await self._opened()).capabilities()

    async def aclose(self) -> None:
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await sandbox.aclose()

    async def _opened(self) -> Sandbox:
        async with self._lock:
            if self._sandbox is None:
                self._sandbox = await anyio.to_thread.run_sync(open_default_sandbox)
            return self._sandbox
