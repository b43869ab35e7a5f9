"""``mcp`` and ``tools --schema`` on the command line; the protocol itself: see tests/mcp."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters
from tests.cli.command_line import command_line

from sandboxed_tools.builtin import SHIPPED
from sandboxed_tools.mcp.client_config import CLIENTS

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work space"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    return folder


@pytest.mark.parametrize("form", ["anthropic", "openai", "openai-chat", "mcp", "json"])
def test_tools_are_printed_in_a_vendors_form(form: str) -> None:
    done = command_line("tools", "--schema", form)
    assert done.code == 0, done.errors
    kept = Path(__file__).parents[1] / "tool" / "vendor_schemas" / f"{form}.json"
    assert done.object == json.loads(kept.read_text())


def test_an_unknown_form_is_wrong_usage() -> None:
    done = command_line("tools", "--schema", "nope")
    assert done.code == 2
    assert "openai-chat" in done.errors


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_printed_for_a_client_starts_a_server_on_this_workspace(
    client: str, workspace: Path
) -> None:
    """Each text is taken apart as its client takes it, and the server in it is spoken to."""
    done = command_line("mcp", "config", client, cwd=workspace)
    assert done.code == 0, done.errors
    command = _command_in(done.text, client)

    async def names() -> set[str]:
        server = StdioServerParameters(command=command[0], args=command[1:])
        async with Client(server) as opened:
            found = await opened.call_tool("Glob", {"pattern": "*"})
            assert "a.txt" in found.structured_content["text"]
            return {tool.name for tool in (await opened.list_tools()).tools}

    assert anyio.run(names) == {tool.name for tool in SHIPPED}


@pytest.mark.parametrize(
    ("name", "program"), [("claude-code", "claude"), ("codex", "codex"), ("gemini-cli", "gemini")]
)
def test_one_command_of_the_readme_adds_the_tools_to_a_client(
    name: str, program: str, tmp_path: Path
) -> None:
    """In a folder whose name a shell would take apart; the client here writes down its words."""
    line = next(line for line in README.splitlines() if line.startswith('eval "$(sandboxed-tools'))
    line = line.replace("claude-code", name)
    folder = tmp_path / "a project; touch $(id) 'x'"
    folder.mkdir()
    client = tmp_path / program
    client.write_text('#!/bin/sh\nprintf "%s\\0" "$@"\n')
    client.chmod(0o755)
    path = os.pathsep.join(map(str, (tmp_path, Path(sys.executable).parent, "/usr/bin", "/bin")))
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    words = done.stdout.split("\0")[:-1]
    assert words[:3] == ["mcp", "add", "sandboxed-tools"]
    assert words[-3:] == ["mcp", "--workspace", str(folder)]
    assert os.listdir(folder) == []


def _command_in(text: str, client: str) -> list[str]:
    if client in ("claude-code", "codex", "gemini-cli"):
        words = shlex.split(text)
        assert words[1:3] == ["mcp", "add"]
        start = words[4:] if client == "gemini-cli" else words[5:]
        return [word for word in start if word != "--"]
    settings = json.loads(text)
    (servers,) = settings.values()
    entry = servers["sandboxed-tools"]
    if client == "opencode":
        return list(entry["command"])
    return [entry["command"], *entry["args"]]


def test_a_folder_whose_name_is_not_utf_8_is_in_a_line_and_in_no_settings(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    folder.mkdir()
    env = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    line = command_line("mcp", "config", "codex", cwd=folder, env=env)
    assert line.code == 0, line.errors
    assert shlex.split(os.fsdecode(line.stdout))[-1] == str(folder)
    settings = command_line("mcp", "config", "cursor", cwd=folder, env=env)
    assert (settings.code, settings.stdout) == (2, b"")
    assert "not UTF-8" in settings.errors


def test_an_unknown_client_is_wrong_usage_and_the_known_ones_are_named() -> None:
    done = command_line("mcp", "config", "nope")
    assert done.code == 2
    assert "claude-code" in done.errors


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--workspace", "/"], "workspace"),
        (["--workspace", "/proc/nonexistent"], "exist"),
        (["--network", "host"], "is no network"),
        (["--network", "compose:project"], "is no network"),
        (["--service", "db"], "NAME=CONTAINER"),
        (["--service", "localhost=db"], "no name"),
        (["--network", "bridge", "--service", "db=db"], "network of its own"),
        (["--changes", "maybe"], "--changes"),
        (["--memory", "-1"], "memory"),
        (["--tools", "json"], "package.module:name"),
        (["--tools", "json:nothing"], "cannot be imported"),
        (["--tools", "json:dumps"], "neither a tool"),
        (["--tools", "string:ascii_letters"], "neither a tool"),
        (["--http", "--confirm-by", "elicitation"], "answer itself"),
        (["--confirm-by", "nobody"], "--confirm-by"),
        (["--http", "--host", "192.0.2.1"], "cannot be listened on"),
    ],
)
def test_settings_that_cannot_be_used_end_with_two_and_a_reason(
    words: list[str], told: str
) -> None:
    done = command_line("mcp", *words)
    assert done.code == 2
    assert told in done.errors
    assert "Traceback" not in done.errors
    assert done.stdout == b""


def test_an_option_asks_for_nothing_that_the_policy_took_away(workspace: Path) -> None:
    env = {**os.environ, "SANDBOXED_TOOLS_CONFIRM_BY": "[]"}
    done = command_line("mcp", "--confirm-by", "elicitation", "-w", workspace, env=env)
    assert done.code == 2
    assert "confirm_by" in done.errors
    assert command_line("mcp", "-w", workspace, env=env).code == 0


def test_the_extra_has_what_the_server_imports() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extra = " ".join(project["optional-dependencies"]["mcp"])
    assert all(name in extra for name in ("mcp>=", "uvicorn", "starlette"))
