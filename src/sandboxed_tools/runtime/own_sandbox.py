"""The sandbox behind a Toolbox: opened by the first call that needs it, ended with the Toolbox."""

from __future__ import annotations

from functools import partial

import anyio
import anyio.to_thread

from sandboxed_tools.errors import ConfigurationError, SandboxUnavailable
from sandboxed_tools.policy import Policy
from sandboxed_tools.runtime.default_sandbox import open_default_sandbox
from sandboxed_tools.runtime.requirements import Requirements
from sandboxed_tools.sandbox.contract import Sandbox

__all__ = ["OwnSandbox"]


class OwnSandbox:
    """Holds the sandbox that was ``given``, which stays its giver's, or one of its own."""

    def __init__(self, given: Sandbox | None, *, warm: bool) -> None:
        self._sandbox = given
        self._is_own = given is None
        self._warm = warm
        self._lock = anyio.Lock()
        self._is_stopped = False
        self._requirements = Requirements()

    async def open(self, policy: Policy, *, runtime: str | None) -> Sandbox:
        """The sandbox, opened when it is not yet, once it has what the policy requires.

        Raises:
            SandboxUnavailable: there is no engine, it lacks something that is required, or
                :meth:`stop` was called.
        """
        async with self._lock:
            if self._is_stopped:
                raise SandboxUnavailable("The Toolbox was stopped.")
            if self._sandbox is None:
                opened = partial(
                    open_default_sandbox,
                    protected=policy.protected_paths,
                    warm=self._warm,
                    admission=policy.admission,
                )
                self._sandbox = await anyio.to_thread.run_sync(opened)
            await self._requirements.check(
                self._sandbox, policy.require, runtime=policy.runtime or runtime
            )
            return self._sandbox

    async def stop(self) -> bool:
        """See :meth:`sandboxed_tools.Toolbox.stop`."""
        if not self._is_own:
            raise ConfigurationError("This Toolbox's sandbox is not its own to stop.")
        self._is_stopped = True
        async with self._lock:
            sandbox = self._sandbox
        if sandbox is None:
            return False
        await sandbox.aclose()
        return True

    async def aclose(self) -> None:
        """End the sandbox, unless it was given. Safe to call more than once."""
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None and self._is_own:
            await sandbox.aclose()
