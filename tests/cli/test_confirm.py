"""Questions on the terminal: once, always, no, and nothing that a call can paint over them."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandboxed_tools.audit import AuditReader

DEADLINE_S = 60.0

ASK_TWICE = """
import sys, anyio
from sandboxed_tools import Policy, Toolbox, ToolInput, build_tool
from sandboxed_tools.cli.confirm import terminal_confirmer

class TextInput(ToolInput):
    text: str

tool = build_tool(
    name="Send", description="x", input_schema=TextInput,
    call=lambda tool_input, ctx: "sent", permission_pattern=lambda tool_input: tool_input.text,
)

async def main():
    async with Toolbox([tool], trusted=(tool,), confirmer=terminal_confirmer()) as box:
        for text in sys.argv[1:]:
            try:
                result = await box.call(tool, {"text": text})
                print(f"<{result.output}>")
            except Exception as error:
                print(f"<{type(error).__name__}>")

anyio.run(main)
"""


def converse(words: list[str], answers: list[str], env: dict[str, str]) -> str:
    """Run a program on a terminal of its own, answer its questions, return all that it showed."""
    master, slave = pty.openpty()
    program = subprocess.Popen(
        words, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True
    )
    os.close(slave)
    shown, asked = "", 0
    deadline = time.monotonic() + DEADLINE_S
    try:
        while time.monotonic() < deadline:
            if not select.select([master], [], [], 0.2)[0]:
                if program.poll() is not None:
                    break
                continue
            try:
                piece = os.read(master, 65_536)
            except OSError:
                break
            shown += piece.decode("utf-8", "replace")
            if shown.count("Run it?") > asked and shown.rstrip().endswith("]"):
                asked = shown.count("Run it?")
                os.write(master, f"{answers.pop(0)}\n".encode())
        assert program.wait(timeout=DEADLINE_S) is not None
    finally:
        program.kill()
        program.wait()
        os.close(master)
    return shown


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "SANDBOXED_TOOLS_STATE_DIR": str(tmp_path / "state"), "TERM": "dumb"}


@pytest.mark.parametrize(
    ("answers", "outcomes"),
    [
        (["y", "y"], ["<sent>", "<sent>"]),
        (["a"], ["<sent>", "<sent>"]),
        (["n", ""], ["<PermissionDenied>", "<PermissionDenied>"]),
        (["yes", "no"], ["<sent>", "<PermissionDenied>"]),
        (["perhaps", "Y"], ["<PermissionDenied>", "<sent>"]),
    ],
)
def test_the_terminal_asks_once_always_or_no(
    env: dict[str, str], answers: list[str], outcomes: list[str]
) -> None:
    shown = converse([sys.executable, "-c", ASK_TWICE, "x", "x"], list(answers), env)
    assert [line for line in shown.splitlines() if line.startswith("<")] == outcomes
    assert "Send(x)" in shown, "the pattern that always would allow is named"


def test_a_hostile_call_paints_nothing_over_the_question(env: dict[str, str]) -> None:
    hostile = "\x1b[2J\x1b]0;pwned\x07\r\u202eyes please\x1b[1A"
    shown = converse([sys.executable, "-c", ASK_TWICE, hostile], ["n"], env)
    assert "\x1b[2J" not in shown
    assert "\x1b]0;" not in shown
    assert "\u202e" not in shown
    assert "Run it?" in shown
    assert "<PermissionDenied>" in shown


@pytest.mark.engine
def test_a_question_about_run_shows_its_words_and_so_does_the_record(
    env: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "config" / "sandboxed-tools"
    folder.mkdir(parents=True)
    (folder / "policy.toml").write_text('ask = ["Run"]\n')
    env["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    words: list[str] = [sys.executable, "-m", "sandboxed_tools.cli.main", "run", "--"]
    odd = os.fsdecode(b"\xff\x1b[2J")
    shown = converse([*words, "printf", "%s", odd, "API_TOKEN=sk-0123456789abcdef0123"], ["n"], env)
    assert 'Run({"words": ["printf", "%s", ' in shown
    assert "\x1b[2J" not in shown
    converse([*words, "exit 3"], ["y"], env)
    newest, older = AuditReader(tmp_path / "state").last_calls(2)
    assert newest.facts["input"] == {"words": ["exit 3"]}
    assert older.facts["input"]["words"][:3] == ["printf", "%s", "\\xff\x1b[2J"]
    assert "sk-0123456789" not in json.dumps(older.facts)
    assert older.facts["error"] == "permission_denied"


def test_call_asks_on_its_terminal_and_records_the_answer(
    env: dict[str, str], tmp_path: Path
) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    raw = json.dumps({"file_path": "new.txt", "content": "x\n"})
    words = [sys.executable, "-m", "sandboxed_tools.cli.main", "call", "Write", raw, "-w"]
    converse([*words, str(workspace)], ["n"], env)
    assert not (workspace / "new.txt").exists()
    converse([*words, str(workspace)], ["y"], env)
    assert (workspace / "new.txt").read_text() == "x\n"
    newest, older = AuditReader(tmp_path / "state").last_calls(2)
    assert (newest.facts["rule"], newest.facts["layer"]) == ("confirmed", "person")
    assert older.facts["error"] == "permission_denied"
