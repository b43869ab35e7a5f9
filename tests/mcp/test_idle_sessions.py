"""A session over HTTP that nobody uses is forgotten, and one whose call still runs is not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from tests.mcp.serving import http_server, until
from tests.mcp.slow_sandbox import SlowSandbox

from sandboxed_tools.mcp import ServerOptions, sessions
from sandboxed_tools.tool import ChangeSummary

CALL = {"command": "touch x"}


async def test_an_idle_session_loses_what_it_had_and_a_busy_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(sessions, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    monkeypatch.setattr(sessions, "SWEEP_S", 0.05)
    sandbox = SlowSandbox(changes=ChangeSummary("held", id="0123abcd", added=1))
    options = ServerOptions(sandbox=sandbox, workspaces=(tmp_path,))
    answers: list[Any] = []
    async with http_server(options) as running:
        async with running.client(mode="legacy") as idle, running.client(mode="legacy") as busy:
            sandbox.let_go.set()
            assert not (await idle.call_tool("Bash", CALL)).is_error
            assert len((await idle.list_resources()).resources) == 1
            sandbox.let_go = anyio.Event()

            async def call() -> None:
                answers.append(await busy.call_tool("Bash", CALL))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await until(lambda: sandbox.running == 1, what="the call runs")
                now_s[0] += options.idle_s + 1
                with anyio.fail_after(60):
                    while (await idle.list_resources()).resources:  # noqa: ASYNC110
                        await anyio.sleep(0.05)
                assert sandbox.running == 1
                sandbox.let_go.set()
            assert not answers[0].is_error
            assert len((await busy.list_resources()).resources) == 1
            assert not (await idle.call_tool("Bash", CALL)).is_error, "it may begin anew"
