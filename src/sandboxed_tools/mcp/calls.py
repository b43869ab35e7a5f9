"""One ``tools/call``: a place in the client's queue, the call itself, and what the client is told
meanwhile. Whatever ends the request ends the call."""

from __future__ import annotations

import logging
from typing import Any, Final

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from sandboxed_tools.errors import (
    CallCancelled,
    PermissionDenied,
    SandboxedToolsError,
    ToolFailed,
    ToolNotFound,
)
from sandboxed_tools.mcp.confirm import QUESTION_KEY, Asking, QuestionNeeded, asking
from sandboxed_tools.mcp.live import LiveView
from sandboxed_tools.mcp.results import error_result, tool_result
from sandboxed_tools.mcp.sessions import Session
from sandboxed_tools.policy.faults import text_of
from sandboxed_tools.runtime import CallResult, Toolbox
from sandboxed_tools.tool import AnyTool

__all__ = ["GONE", "call_tool"]

log = logging.getLogger("sandboxed_tools.mcp")

GONE: Final = "sandboxed_tools.gone"
"""In an ASGI scope: the event that is set when the client has gone before it was answered."""

Context = ServerRequestContext[Any, Any]
Answered = types.CallToolResult | types.InputRequiredResult


async def call_tool(
    session: Session, ctx: Context, params: types.CallToolRequestParams
) -> Answered:
    """Carry a call out. What is refused or fails is a result with ``isError``.

    Raises:
        MCPError: there is no such tool (-32602, as the specification has it).
    """
    current = Asking(ctx, params, session.answered)
    token = asking.set(current)
    try:
        async with session.call():
            box = await session.toolbox(ctx)
            tool = _tool(box, params.name)
            live = LiveView(ctx, tool=tool, log_level=session.log_level)
            result = await _run(box, ctx, params, live)
            return tool_result(result, tool=tool, kept=session.remember(result, box))
    except ToolNotFound as error:
        raise MCPError(types.INVALID_PARAMS, error.for_model) from error
    except PermissionDenied as error:
        if isinstance(error.__cause__, QuestionNeeded):
            return types.InputRequiredResult(
                input_requests={QUESTION_KEY: error.__cause__.request},
                request_state=current.state(),
            )
        return _refused(params, error)
    except SandboxedToolsError as error:
        return _refused(params, error)
    finally:
        asking.reset(token)


def _refused(params: types.CallToolRequestParams, error: SandboxedToolsError) -> Answered:
    log.info("%s was not carried out: %s (%s)", params.name[:64], error, error.operator_detail)
    return error_result(error)


def _tool(box: Toolbox, name: str) -> AnyTool | None:
    return next((tool for tool in box.tools if name in (tool.name, *tool.aliases)), None)


async def _run(
    box: Toolbox, ctx: Context, params: types.CallToolRequestParams, live: LiveView
) -> CallResult[Any]:
    """The call, beside whoever tells the client about it.

    Raises:
        SandboxedToolsError: as ``Toolbox.call``.
    """
    outcome: CallResult[Any] | SandboxedToolsError = CallCancelled("The client has gone.")
    # Nothing is raised in here: the group would wrap it.
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(live.run)
        tasks.start_soon(_cancel_when_gone, ctx, tasks.cancel_scope)
        try:
            outcome = await box.call(
                params.name,
                params.arguments or {},
                on_output=live.on_output,
                on_progress=live.on_progress,
            )
        except SandboxedToolsError as error:
            outcome = error
        except Exception as error:
            log.exception("a call of %s failed in a way that nothing foresaw", params.name[:64])
            outcome = ToolFailed("The call failed.", operator_detail=text_of(error))
        await live.finish()
        tasks.cancel_scope.cancel()
    if isinstance(outcome, SandboxedToolsError):
        raise outcome
    return outcome


async def _cancel_when_gone(ctx: Context, scope: anyio.CancelScope) -> None:
    """Over HTTP nobody can fetch an answer later, so a call without a client is for nobody."""
    gone = ctx.request.scope.get(GONE) if ctx.request is not None else None
    if isinstance(gone, anyio.Event):
        await gone.wait()
        scope.cancel()
