"""The server as the MCP project's own tools see it: its inspector, and its conformance suite."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tests.mcp.npm import node_environment, npm_tool
from tests.mcp.serving import http_server
from tests.runtime.recording_sandbox import RecordingSandbox

from sandboxed_tools.builtin import SHIPPED
from sandboxed_tools.mcp import ServerOptions
from sandboxed_tools.mcp.http import Guard

pytestmark = pytest.mark.slow

# The newest ones that run on Node 20.
INSPECTOR = ("@modelcontextprotocol/inspector-cli", "0.21.2", "build/cli.js")
CONFORMANCE = ("@modelcontextprotocol/conformance", "0.1.11", "dist/index.js")

SCENARIOS = [
    "server-initialize",
    "ping",
    "tools-list",
    "logging-set-level",
    "resources-list",
    "dns-rebinding-protection",
]
"""What the suite asks of any server; its others call tools that only a test server has."""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    return folder


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    # The inspector looks for its own package.json from the current directory.
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
        cwd=Path(command[1]).parent,
        env=node_environment(command[0]),
    )


def inspected(server: list[str], *words: str) -> Any:
    done = run([*npm_tool(*INSPECTOR), "--cli", *server, *words])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.timeout(800)
def test_the_inspector_lists_and_calls_over_standard_input(workspace: Path) -> None:
    # The inspector takes a -m for an option of its own.
    program = Path(sys.executable).parent / "sandboxed-tools"
    server = [str(program), "mcp", "-w", str(workspace)]
    tools = inspected(server, "--method", "tools/list")["tools"]
    assert [tool["name"] for tool in tools] == [tool.name for tool in SHIPPED]
    found = inspected(
        server, "--method", "tools/call", "--tool-name", "Glob", "--tool-arg", "pattern=*.txt"
    )
    assert "a.txt" in found["structuredContent"]["text"]
    assert found["isError"] is False


@pytest.mark.timeout(800)
async def test_the_inspector_lists_and_calls_over_http(workspace: Path) -> None:
    npm_tool(*INSPECTOR)
    options = ServerOptions(workspaces=(workspace,), sandbox=RecordingSandbox())
    async with http_server(options) as running:
        server = [running.address.url, "--transport", "http"]
        token = ["--header", f"Authorization: {running.headers['Authorization']}"]
        found = await anyio.to_thread.run_sync(
            lambda: inspected(
                server,
                *("--method", "tools/call", "--tool-name", "Bash"),
                *("--tool-arg", "command=touch x"),
                *token,
            )
        )
        assert found["structuredContent"]["stdout"] == "recorded\n"
        refused = await anyio.to_thread.run_sync(
            run, [*npm_tool(*INSPECTOR), "--cli", *server, "--method", "tools/list"]
        )
        assert refused.returncode != 0, "without the token"


@pytest.mark.timeout(800)
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_the_conformance_suite_passes(
    scenario: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = npm_tool(*CONFORMANCE)
    # The suite cannot be given a token.
    monkeypatch.setattr(Guard, "_is_authorized", lambda self, headers: True)
    options = ServerOptions(workspaces=(workspace,), sandbox=RecordingSandbox())
    async with http_server(options) as running:
        command = [*tool, "server", "--url", running.address.url, "--scenario", scenario]
        done = await anyio.to_thread.run_sync(run, command)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"Passed: (\d+)/(\d+), 0 failed, 0 warnings", done.stdout)
    assert passed is not None, done.stdout
    assert passed[1] == passed[2] != "0"
