"""The command line where something that every program takes for granted is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.command_line import Done

PROGRAM = (sys.executable, "-m", "sandboxed_tools.cli.main")
DEADLINE_S = 170


def by_shell(script: str, *words: str, cwd: Path | None = None) -> Done:
    """Run the words by a shell, which arranges their surroundings before: ``"$@"`` are they."""
    done = subprocess.run(
        ["sh", "-c", script, "sh", *PROGRAM, *words],
        input=b"not for the command",
        cwd=cwd,
        capture_output=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.engine
def test_standard_streams_that_are_closed_are_empty_and_swallow_what_is_printed() -> None:
    command = "cat; echo out; echo err >&2"
    closed_input = by_shell('exec "$@" <&-', "run", "-i", "--", command)
    assert (closed_input.code, closed_input.stdout, closed_input.stderr) == (0, b"out\n", b"err\n")
    closed_errors = by_shell('exec "$@" 2>&-', "run", "--", command)
    assert (closed_errors.code, closed_errors.stdout, closed_errors.stderr) == (0, b"out\n", b"")
    all_closed = by_shell('exec "$@" <&- >&- 2>&-', "run", "--", f"{command}; exit 7")
    assert (all_closed.code, all_closed.stdout, all_closed.stderr) == (7, b"", b"")


def test_nothing_that_is_opened_gets_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    """Or what is printed would end up in it."""
    code = (
        "import os, runpy, sys, atexit\n"
        "def at_end():\n"
        "    with open('seen', 'w') as file:\n"
        "        names = [os.readlink(f'/proc/self/fd/{n}') for n in (0, 1, 2)]\n"
        "        print(file.fileno(), *names, *map(os.get_inheritable, (0, 1, 2)), file=file)\n"
        "atexit.register(at_end)\n"
        "sys.argv[1:] = ['--version']\n"
        "runpy.run_module('sandboxed_tools.cli.main', run_name='__main__')\n"
    )
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", code],
        cwd=tmp_path,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0
    number, *rest = (tmp_path / "seen").read_text().split()
    assert int(number) > 2
    assert rest == ["/dev/null"] * 3 + ["True"] * 3


@pytest.mark.parametrize(
    "words", [["tools"], ["--help"], ["run", "-h"], ["tools", "--json"], ["mcp", "config", "codex"]]
)
def test_output_that_cannot_be_written_is_said_in_one_line(words: list[str]) -> None:
    done = by_shell('exec "$@" >/dev/full', *words)
    assert done.code == 125
    assert "error: This machine failed: No space left on device.\n" in done.errors
    assert "Traceback" not in done.errors
    assert by_shell('exec "$@" >/dev/full 2>&1', *words).code == 125


@pytest.mark.engine
@pytest.mark.parametrize("option", [(), ("--json",)])
def test_output_of_a_command_that_is_lost_is_no_success(option: tuple[str, ...]) -> None:
    done = by_shell('exec "$@" >/dev/full', "run", *option, "--", "echo out; echo err >&2")
    assert done.code == 125
    assert "No space left on device" in done.errors
    assert "Traceback" not in done.errors


@pytest.mark.parametrize(
    "words",
    [["changes", "list"], ["explain", "ls"], ["mcp", "config", "codex"], ["mcp", "-w", "."]],
)
def test_a_current_folder_that_is_gone_is_wrong_usage(words: list[str], tmp_path: Path) -> None:
    done = by_shell('mkdir gone; cd gone; rmdir ../gone; exec "$@"', *words, cwd=tmp_path)
    assert done.code == 2
    assert done.errors == "error: The current folder is gone; change to another.\n"


@pytest.mark.engine
def test_a_runtime_that_the_engine_does_not_have_is_answered_with_those_it_has() -> None:
    for runtime in ("st-no-such", "", "\x1b[31mred"):
        done = by_shell('exec "$@"', "run", "--runtime", runtime, "--", "true")
        assert done.code == 125
        assert "has no runtime" in done.errors
        assert "runc" in done.errors
        assert "\x1b" not in done.errors
