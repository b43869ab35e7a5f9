"""The work of one tool, with its hooks, and whatever it raises turned into the error tree."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import anyio.to_thread

from sandboxed_tools.errors import SandboxedToolsError, ToolFailed
from sandboxed_tools.policy.faults import text_of
from sandboxed_tools.runtime.call_context import CallContext
from sandboxed_tools.runtime.large_results import LargeResults
from sandboxed_tools.tool import AnyTool, ToolInput
from sandboxed_tools.tool.context import revoke

__all__ = ["Presented", "do_work", "present", "tell_progress"]

log = logging.getLogger("sandboxed_tools")


@dataclass(frozen=True, slots=True)
class Presented:
    """An output as text: for a model, bounded; and for a person."""

    for_model: str
    for_person: str


async def do_work(
    tool: AnyTool,
    tool_input: ToolInput,
    context: CallContext,
    *,
    timeout_s: float | None = None,
    work: Callable[[ToolInput, CallContext], Awaitable[Any]] | None = None,
) -> Any:
    """Run the tool's work. A hook that raises is logged and stops nothing.

    ``work`` does it instead of the tool itself, somewhere else. ``timeout_s`` bounds a Python
    function; one that is not a coroutine runs in a thread, which nothing can stop, so it is waited
    for all the same.

    Raises:
        SandboxedToolsError: as it comes.
        ToolFailed: the tool's own code raised anything else.
    """
    try:
        _hook(tool.on_start, tool_input)
        with anyio.move_on_after(timeout_s) as deadline:
            output = await (work or tool.call)(tool_input, context)
        if deadline.cancelled_caught:
            raise ToolFailed(f"{tool.name} failed: it took longer than {timeout_s} seconds.")
    except anyio.get_cancelled_exc_class():
        _hook(tool.on_cancel, tool_input)
        raise
    except SandboxedToolsError as error:
        _hook(tool.on_error, tool_input, error)
        raise
    except (Exception, SystemExit) as error:
        # SystemExit as well: a tool must not be able to end the program by sys.exit().
        _hook(tool.on_error, tool_input, error)
        raise _failed(tool, error) from error
    finally:
        revoke(context.ticket)
    _hook(tool.on_success, tool_input, output)
    return output


async def present(tool: AnyTool, output: Any, *, results: LargeResults, call_id: str) -> Presented:
    """The output as text; what is over the tool's ``max_result_size`` is kept in a file.

    Raises:
        ToolFailed: the tool's own presentation raised; its work has been done.
    """
    try:
        text = tool.to_model_text(output)
        shown = tool.render_result(output)
    except (Exception, SystemExit) as error:
        raise _failed(tool, error) from error
    size = tool.max_result_size
    if len(text) > size:
        shorten = partial(results.shortened, text, max_chars=size, call_id=call_id)
        text = await anyio.to_thread.run_sync(shorten)
    return Presented(text, shown)


def tell_progress(tool: AnyTool, listener: Callable[[Any], None] | None, value: Any) -> None:
    """Hand progress to the tool's own hook, then to whoever listens."""
    _hook(tool.on_progress, value)
    if listener is not None:
        listener(value)


def _failed(tool: AnyTool, error: BaseException) -> ToolFailed:
    return ToolFailed(
        f"{tool.name} failed: {type(error).__name__}: {text_of(error, say=str)}"[:2000],
        operator_detail=text_of(error),
    )


def _hook(hook: Callable[..., None], *arguments: object) -> None:
    try:
        hook(*arguments)
    except (Exception, SystemExit):
        log.exception("a life-cycle hook failed; the call goes on")
