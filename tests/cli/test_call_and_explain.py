"""``call`` and ``explain``: the same verdict, placement and reasons, run or only told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command_line import command_line


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text(name)
    return folder


@pytest.mark.engine
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("command", "where"),
    [("ls | head", "host"), ("git status", "container"), ("rm a.txt", "container")],
)
def test_bash_runs_where_explain_says_it_would(workspace: Path, command: str, where: str) -> None:
    told = command_line("explain", "--json", "-w", workspace, command).object
    ran = command_line("call", "Bash", json.dumps({"command": command}), "-w", workspace, "--json")
    assert ran.code == 0, ran.errors
    assert told["placement"] == ran.object["placement"] == where
    assert told["reasons"] == ran.object["reasons"]
    assert (workspace / "a.txt").exists()
    if where == "host":
        assert ran.object["stdout"] == "a.txt\nb.txt\n"
        assert ran.object["view"] == "host"


def test_file_tool_without_a_workspace_says_how_to_name_one() -> None:
    done = command_line("call", "Glob", '{"pattern": "*"}')
    assert done.code == 1
    assert "--workspace DIR" in done.errors


def test_explain_names_the_culprit_with_its_span_and_runs_nothing(workspace: Path) -> None:
    command = "ls; touch pwned"
    done = command_line("explain", "--json", command, cwd=workspace)
    found: dict[str, Any] = done.object
    assert found["read_only"] is False
    assert found["placement"] == "container"
    spans = [command[r["start"] : r["end"]] for r in found["reasons"] if r["start"] is not None]
    assert any("touch" in span for span in spans)
    assert not (workspace / "pwned").exists()
    shown = command_line("explain", command, cwd=workspace)
    assert "may write" in shown.text
    assert "\x1b" not in shown.text, "no colours where there is no terminal"


def test_explain_in_bulk_answers_a_line_for_a_line_whatever_it_is() -> None:
    lines: list[bytes] = [
        json.dumps(command).encode()
        for command in ("ls", "touch x", "", "a\0b", "\ud800", "\u202eevil", "x" * 100_000, "-rf")
    ]
    lines += [b"not json", b"3", b"null", b"[]", b"\xff\xfe", b"[" * 100_000]
    done = command_line("explain", "--batch", stdin=b"\n".join(lines))
    assert done.code == 0, done.errors
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(lines)
    assert [answer["read_only"] for answer in answers] == [True] + [False] * (len(lines) - 1)
    assert all(answer["reasons"] for answer in answers)
    assert {answer["placement"] for answer in answers[1:]} == {"container"}


def test_explain_shows_hostile_text_harmlessly() -> None:
    done = command_line("explain", "ls \x1b]0;title\x07 \u202e")
    assert "\x1b" not in done.text
    assert "\u202e" not in done.text


def test_glob_is_called_on_the_host_without_an_engine(workspace: Path) -> None:
    import os

    env = {**os.environ, "DOCKER_HOST": "unix:///nonexistent/docker.sock"}
    done = command_line("call", "Glob", '{"pattern": "*.txt"}', "-w", workspace, "--json", env=env)
    assert done.code == 0, done.errors
    assert done.object["placement"] == "host"
    assert sorted(done.object["output"]["names"]) == ["a.txt", "b.txt"]


@pytest.mark.parametrize(
    ("tool", "raw"),
    [
        ("Nope", "{}"),
        ("Glob", "{}"),
        ("Glob", "[]"),
        ("Glob", "{"),
        ("Glob", '{"pattern": "*", "extra": 1}'),
        ("Bash", '{"command": ""}'),
        ("Bash", '{"command": "ls", "timeout": "abc"}'),
    ],
)
def test_a_call_that_is_refused_ends_with_one_and_a_readable_reason(
    workspace: Path, tool: str, raw: str
) -> None:
    done = command_line("call", tool, raw, "-w", workspace)
    assert done.code == 1
    assert done.errors.startswith("error: ")
    assert "Traceback" not in done.errors
    assert command_line("call", tool, raw, "-w", workspace, "--json").object["error"]["message"]


def test_an_input_may_come_from_standard_input(workspace: Path) -> None:
    done = command_line("call", "Glob", "-", "-w", workspace, "--json", stdin=b'{"pattern": "a*"}')
    assert done.object["output"]["names"] == ["a.txt"]


def test_tools_are_listed_and_shown_whole() -> None:
    names = [tool["name"] for tool in command_line("tools", "--json").object]
    assert {"Bash", "Glob"} <= set(names)
    shown = command_line("tools", "show", "Glob", "--json").object
    assert shown["interface"]["flags"]["is_read_only"] == {"origin": "stated", "value": "True"}
    assert shown["interface"]["flags"]["is_reversible"]["origin"] == "supplied (defaults 1)"
    assert command_line("tools", "show", "Nope").code == 2


def test_the_version_and_help_are_there_for_every_command() -> None:
    assert command_line("--version").text.startswith("sandboxed-tools ")
    for command in ("run", "call", "explain", "tools", "doctor", "ps", "gc", "images", "lint"):
        done = command_line(command, "--help")
        assert done.code == 0
        assert "Usage" in done.text
