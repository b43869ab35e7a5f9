"""Standard input of a call that comes from an asynchronous stream."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable

import anyio
import anyio.to_thread

from sandboxed_tools.sandbox.docker.call import Call
from sandboxed_tools.sandbox.docker.stdin_feed import StdinFeed
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.result import ExecResult

__all__ = ["feed_for", "run_with_stream"]


def feed_for(command: Command) -> StdinFeed | None:
    """The feed of a command's standard input; ``None`` when it has none."""
    if command.stdin is None:
        return None
    return StdinFeed(command.stdin if isinstance(command.stdin, bytes) else None)


async def run_with_stream(
    call: Call,
    feed: StdinFeed,
    stream: AsyncIterable[bytes],
    execute: Callable[[Call], Awaitable[ExecResult]],
) -> ExecResult:
    """Run the call while a task beside it passes the stream on, never more than a window ahead."""
    failure: list[Exception] = []

    async def pass_on() -> None:
        try:
            async for chunk in stream:
                feed.add(bytes(chunk))
                call.stdin_changed()
                while not await anyio.to_thread.run_sync(
                    lambda: feed.wait_for_room(timeout_s=1.0), abandon_on_cancel=True
                ):
                    pass
                if feed.is_abandoned:
                    return
            feed.end()
            call.stdin_changed()
        except Exception as error:  # noqa: BLE001  the caller's own code; raised again below
            failure.append(error)
            call.stop()

    results: list[ExecResult] = []
    async with anyio.create_task_group() as group:
        group.start_soon(pass_on)
        try:
            results.append(await execute(call))
        except Exception as error:  # noqa: BLE001  raised again outside: here it would be wrapped
            failure.append(error)
        group.cancel_scope.cancel()
    if failure:
        raise failure[0]
    return results[0]
