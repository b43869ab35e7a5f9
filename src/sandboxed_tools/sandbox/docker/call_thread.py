"""A blocking call on a thread of its own, for whoever awaits its result and may be cancelled."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.to_thread

from sandboxed_tools.errors import SandboxUnavailable
from sandboxed_tools.sandbox.docker.call import Call
from sandboxed_tools.tool.result import ExecResult

__all__ = ["run_on_thread"]

CANCEL_WAIT_S = 1.0


async def run_on_thread(call: Call, *, forget: Callable[[], None]) -> ExecResult:
    """Run the call; on cancellation stop it, and wait for it a little.

    ``forget`` is called when it has ended, or will never begin.

    Raises:
        SandboxUnavailable: no thread can be started; or as ``Call.run`` says.
    """

    def work() -> ExecResult:
        try:
            return call.run()
        finally:
            forget()

    try:
        # An own limiter: the default one is shared by everything in the program, and a call may
        # last for hours.
        return await anyio.to_thread.run_sync(
            work, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
        )
    except anyio.get_cancelled_exc_class():
        call.stop()
        if call.started.is_set():
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(
                    call.finished.wait, CANCEL_WAIT_S, limiter=anyio.CapacityLimiter(1)
                )
        raise
    except RuntimeError as error:
        if call.started.is_set():
            raise
        raise SandboxUnavailable(
            "this program cannot start another thread to carry out the call",
            operator_detail=str(error),
        ) from error
    finally:
        if not call.started.is_set():
            # No thread has begun it; one that begins it now finds it stopped.
            call.stop()
            forget()
            call.finished.set()
