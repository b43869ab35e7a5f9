"""Running the work of a file tool on the host: off the event loop, and stopped with the call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread

from sandboxed_tools.tool import Context, for_terminal
from sandboxed_tools.workspace import WorkspaceRoot
from sandboxed_tools.workspace.spelling import Parts

__all__ = ["current_folder", "one_line", "run_stoppable"]

ResultT = TypeVar("ResultT")


async def run_stoppable(work: Callable[[Callable[[], bool]], ResultT]) -> ResultT:
    """Run blocking work in a worker thread; it is given a function that says when to stop.

    A cancelled call tells its work at once and then waits for it: a thread that was left behind
    would go on using descriptors that the workspace has given back.
    """
    stop = threading.Event()

    async def stop_when_cancelled() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            stop.set()

    async with anyio.create_task_group() as group:
        group.start_soon(stop_when_cancelled)
        outcome = await anyio.to_thread.run_sync(_outcome, work, stop.is_set)
        group.cancel_scope.cancel()
    await anyio.lowlevel.checkpoint_if_cancelled()
    return outcome.result()


def _outcome(
    work: Callable[[Callable[[], bool]], ResultT], is_cancelled: Callable[[], bool]
) -> Future[ResultT]:
    """Result or error as a value: an error that crossed the task group would come in a group."""
    outcome: Future[ResultT] = Future()
    try:
        outcome.set_result(work(is_cancelled))
    except Exception as error:  # noqa: BLE001 - raised again by the caller, by result()
        outcome.set_exception(error)
    return outcome


def current_folder(ctx: Context[Any], root: WorkspaceRoot) -> Parts:
    """The session's current directory as names below the workspace.

    Raises:
        PathRefused: it is not below the workspace.
    """
    return root.locate(ctx.cwd).parts if ctx.cwd is not None else ()


def one_line(name: str) -> str:
    """A file name as one line that cannot command a terminal, break a list, or hide in it."""
    return for_terminal(name, one_line=True)
