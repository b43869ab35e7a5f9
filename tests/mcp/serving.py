"""Servers as clients meet them: a process on standard input and output, or a port on loopback."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from sandboxed_tools.mcp import HttpAddress, ServerOptions, Sessions, build_server, serve_http

PROGRAM = (sys.executable, "-m", "sandboxed_tools.cli.main", "mcp")
DEADLINE_S = 120.0


def stdio_server(
    *words: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> StdioServerParameters:
    return StdioServerParameters(
        command=PROGRAM[0],
        args=[*PROGRAM[1:], *map(str, words)],
        env={**os.environ, **(env or {})},
        cwd=cwd,
    )


@dataclass(frozen=True)
class Running:
    """A server over HTTP in this event loop."""

    address: HttpAddress
    sessions: Sessions

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.address.token}"}

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncIterator[Client]:
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(create_mcp_http_client(self.headers))
            transport = streamable_http_client(self.address.url, http_client=http)
            yield await stack.enter_async_context(Client(transport, **options))


@asynccontextmanager
async def http_server(options: ServerOptions) -> AsyncIterator[Running]:
    address = HttpAddress.bind()
    async with Sessions(options) as sessions:
        ready = anyio.Event()
        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                server = build_server(sessions)
                await serve_http(server, sessions, address, on_ready=ready.set)

            tasks.start_soon(serve)
            with anyio.fail_after(DEADLINE_S):
                await ready.wait()
            try:
                yield Running(address, sessions)
            finally:
                tasks.cancel_scope.cancel()


async def until(condition: Any, *, what: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait until ``condition()`` holds."""
    with anyio.move_on_after(deadline_s):
        while not condition():  # noqa: ASYNC110  (conditions outside the event loop)
            await anyio.sleep(0.02)
        return
    raise AssertionError(f"still not so after {deadline_s} s: {what}")


def texts(result: Any) -> str:
    blocks: Sequence[Any] = result.content
    return "\n".join(block.text for block in blocks if block.type == "text")
