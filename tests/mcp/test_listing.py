"""The list of tools is made once for a client, and is never older than its tools."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from tests.mcp.serving import http_server
from tests.mcp.slow_sandbox import SlowSandbox

from sandboxed_tools import ToolInput, build_tool
from sandboxed_tools.builtin import SHIPPED
from sandboxed_tools.mcp import ServerOptions, Sessions, build_server, listing
from sandboxed_tools.tool import AnyTool
from sandboxed_tools.tool.vendor_schemas import to_mcp

ERAS = ["legacy", "auto"]


class Nothing(ToolInput):
    pass


@asynccontextmanager
async def connected(era: str = "legacy", **options: Any) -> AsyncIterator[Client]:
    served = ServerOptions(sandbox=SlowSandbox(), **options)
    async with (
        Sessions(served) as sessions,
        Client(build_server(sessions), mode=era) as client,
    ):
        yield client


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tools that were described, in order."""
    names: list[str] = []

    def counted(tool: Any, *, has_network: bool) -> dict[str, Any]:
        names.append(tool.name)
        return to_mcp(tool, has_network=has_network)

    monkeypatch.setattr(listing, "to_mcp", counted)
    return names


@pytest.mark.parametrize("era", ERAS)
async def test_the_same_tools_are_described_once(era: str, described: list[str]) -> None:
    async with connected(era) as client:
        first, second, third = [await client.list_tools() for _ in range(3)]
    assert first.tools == second.tools == third.tools
    assert described == [tool.name for tool in SHIPPED]


async def test_a_tool_that_goes_and_comes_back_is_listed_as_it_is(described: list[str]) -> None:
    is_there = [True]
    tool: AnyTool = build_tool(
        name="Moody",
        description="x",
        input_schema=Nothing,
        call=lambda tool_input, ctx: "x",
        is_enabled=lambda: is_there[0],
    )
    async with connected(tools=(*SHIPPED[:1], tool)) as client:
        for there in (True, False, False, True):
            is_there[0] = there
            names = {item.name for item in (await client.list_tools()).tools}
            assert ("Moody" in names) is there


async def test_over_http_every_session_has_its_own_list(described: list[str]) -> None:
    async with http_server(ServerOptions(sandbox=SlowSandbox())) as running:
        for _ in range(2):
            async with running.client(mode="legacy") as client:
                await client.list_tools()
                await client.list_tools()
    assert len(described) == 2 * len(SHIPPED)
