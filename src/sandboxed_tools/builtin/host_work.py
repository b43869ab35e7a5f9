"""Running the work of a file tool on the host: off the event loop, and stopped with the call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from sandboxed_tools.tool import Context
from sandboxed_tools.workspace import WorkspaceRoot
from sandboxed_tools.workspace.spelling import Parts

__all__ = ["current_folder", "run_stoppable"]

ResultT = TypeVar("ResultT")


async def run_stoppable(work: Callable[[Callable[[], bool]], ResultT]) -> ResultT:
    """Run blocking work in a worker thread; it is given a function that says when to stop.

    A cancelled call tells its work at once and then waits for it: a thread that was left behind
    would go on using descriptors that the workspace has given back.
    """
    stop = threading.Event()
    ended: Future[None] = Future()

    def run() -> ResultT:
        # A call that was cancelled before a thread was free for it has no work to wait for.
        if not ended.set_running_or_notify_cancel():
            raise CancelledError
        try:
            return work(stop.is_set)
        finally:
            ended.set_result(None)

    try:
        return await anyio.to_thread.run_sync(run, abandon_on_cancel=True)
    except anyio.get_cancelled_exc_class():
        stop.set()
        if not ended.cancel():
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(ended.result)
        raise


def current_folder(ctx: Context[Any], root: WorkspaceRoot) -> Parts:
    """The session's current directory as names below the workspace.

    Raises:
        PathRefused: it is not below the workspace.
    """
    return root.locate(ctx.cwd).parts if ctx.cwd is not None else ()
