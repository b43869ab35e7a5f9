"""A call over HTTP while it runs: what its client is told, and who can end it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from tests.mcp.serving import DEADLINE_S, Running, http_server, until
from tests.mcp.slow_sandbox import SlowSandbox

from sandboxed_tools.mcp import ServerOptions, live

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def message(method: str, params: dict[str, Any], **identity: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params, **identity}


INITIALIZE = message(
    "initialize",
    {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
    id=1,
)


@asynccontextmanager
async def session(running: Running) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that sends what it is told to, with a session of its own."""
    headers = {**ACCEPT, **running.headers}
    async with httpx2.AsyncClient(timeout=DEADLINE_S, headers=headers) as client:
        answer = await client.post(running.address.url, json=INITIALIZE)
        client.headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        await client.post(running.address.url, json=message("notifications/initialized", {}))
        yield client


async def test_output_is_shown_live_and_progress_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "PROGRESS_S", 0.05)
    sandbox = SlowSandbox(prints=b"\x1b[31mfirst\x1b[0m\n")
    seen: list[str] = []
    told: list[float] = []

    async def on_log(params: Any) -> None:
        seen.append(params.data)

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    options = ServerOptions(sandbox=sandbox, workspaces=(tmp_path,))
    async with http_server(options) as running, anyio.create_task_group() as tasks:
        async with running.client(mode="legacy", logging_callback=on_log) as client:
            answers: list[Any] = []

            async def call() -> None:
                words = {"command": "touch x"}
                answers.append(await client.call_tool("Bash", words, progress_callback=on_progress))

            tasks.start_soon(call)
            await until(lambda: seen and len(told) > 1, what="output and progress are told")
            assert not answers, "before the call has ended"
            sandbox.let_go.set()
            await until(lambda: answers, what="the call is answered")
    assert "".join(seen) == "first\n", "and no control sequence"
    assert told == sorted(told)
    assert answers[0].structured_content["exit_code"] == 0


async def test_a_client_cancels_its_own_call_by_its_id_and_nobody_else_s(tmp_path: Path) -> None:
    sandbox = SlowSandbox()
    options = ServerOptions(sandbox=sandbox, workspaces=(tmp_path,))
    call = message("tools/call", {"name": "Bash", "arguments": {"command": "touch x"}}, id=7)
    cancel = message("notifications/cancelled", {"requestId": 7})
    async with http_server(options) as running, anyio.create_task_group() as tasks:
        url = running.address.url
        async with session(running) as mine, session(running) as other:
            tasks.start_soon(lambda: mine.post(url, json=call))
            await until(lambda: sandbox.running == 1, what="the call runs")
            assert (await other.post(url, json=cancel)).status_code == 202
            # A request behind it in the same session: the notification has been dealt with.
            assert (await other.post(url, json=message("ping", {}, id=8))).status_code == 200
            assert sandbox.running == 1
            assert (await mine.post(url, json=cancel)).status_code == 202
            await until(lambda: sandbox.cancelled == 1, what="the command was cancelled")
            tasks.cancel_scope.cancel()
    assert sandbox.running == 0
