"""The answer to ``tools/list``: made once, given again while its tools are the same.

A description of the shipped tools is 20 KB that the SDK dumps, validates against the revision and
dumps again for each request. Nothing of it depends on the request.
"""

from __future__ import annotations

from typing import Any, Final

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError

from sandboxed_tools.errors import SandboxedToolsError
from sandboxed_tools.mcp.sessions import Sessions
from sandboxed_tools.tool import AnyTool
from sandboxed_tools.tool.vendor_schemas import to_mcp

__all__ = ["Listing"]

Context = ServerRequestContext[Any, Any]

_METHOD: Final = "tools/list"


class Listing:
    """Lists the tools of whoever asks."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._has_network = sessions.options.has_network

    async def list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """The handler: makes the answer."""
        try:
            box = await self._sessions.of(ctx).toolbox(ctx)
        except SandboxedToolsError as error:
            raise MCPError(types.INTERNAL_ERROR, error.for_model) from error
        described = [to_mcp(tool, has_network=self._has_network) for tool in box.tools]
        return types.ListToolsResult(
            tools=[types.Tool.model_validate(item, by_name=False) for item in described]
        )

    async def remembered(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """The middleware around it: gives the answer again as it was sent.

        What was sent to a client of this session and revision passed every check of the SDK's. A
        request with parameters of its own goes that way again.
        """
        if ctx.method != _METHOD or not set(ctx.params or ()) <= {"_meta"}:
            return await call_next(ctx)
        session = self._sessions.of(ctx)
        before = session.listed.get(ctx.protocol_version)
        if before is not None and _same(before[0], session.open_tools()):
            return before[1]
        answer = await call_next(ctx)
        if isinstance(answer, dict):
            session.listed[ctx.protocol_version] = (session.open_tools(), answer)
        return answer


def _same(some: tuple[AnyTool, ...], others: tuple[AnyTool, ...]) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))
