"""One sandbox for every client of a server: its warm containers serve whoever calls next.

Sharing it shares nothing of a call with another: a container serves one call and is destroyed.
"""

from __future__ import annotations

import anyio
import anyio.to_thread

from sandboxed_tools.policy import LayeredPolicy, Policy
from sandboxed_tools.runtime.default_sandbox import open_default_sandbox
from sandboxed_tools.sandbox.contract import (
    Capabilities,
    OutputSink,
    Sandbox,
    SandboxSpec,
    SharedAmongCallers,
)
from sandboxed_tools.tool import Command, ExecResult

__all__ = ["SharedSandbox"]


class SharedSandbox:
    """The engine that answers here, from the first call on, bounded by the policy for all calls."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._lock = anyio.Lock()
        self._sandbox: SharedAmongCallers | None = None

    def for_client(self, key: str) -> Sandbox:
        """The sandbox for one client: where calls have to wait, clients take turns."""
        return _OfClient(self, key)

    async def opened(self) -> SharedAmongCallers:
        """The sandbox; EngineNotFound when there is none, and then the next call tries again."""
        async with self._lock:
            if self._sandbox is None:
                self._sandbox = await anyio.to_thread.run_sync(self._open)
            return self._sandbox

    def _open(self) -> SharedAmongCallers:
        policy = LayeredPolicy(self._policy).current().policy
        return open_default_sandbox(protected=policy.protected_paths, admission=policy.admission)

    async def aclose(self) -> None:
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await sandbox.aclose()


class _OfClient:
    """Implements ``Sandbox`` for one client; closing it leaves the shared one to the others."""

    def __init__(self, shared: SharedSandbox, key: str) -> None:
        self._shared = shared
        self._key = key

    async def run(
        self, spec: SandboxSpec, command: Command, on_output: OutputSink | None = None
    ) -> ExecResult:
        """See :meth:`Sandbox.run`; EngineNotFound as well."""
        sandbox = await self._shared.opened()
        return await sandbox.for_caller(self._key).run(spec, command, on_output)

    async def capabilities(self) -> Capabilities:
        return await (await self._shared.opened()).capabilities()

    async def aclose(self) -> None:
        """Nothing is this client's own."""
