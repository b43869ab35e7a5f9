"""What the documents show is run: every Python block, and every command of the README."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.documented import programs_in, run_program

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    command
    for command in re.findall(r"`(sandboxed-tools [^`]+)`", README)
    if "…" not in command and "CLIENT" not in command
]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / "src").mkdir(parents=True)
    (folder / "Makefile").write_text("test:\n\t@echo tested\n")
    (folder / "a.py").write_text("print(1)\n")
    return folder


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_readme_is_short_enough_to_be_read() -> None:
    assert len(README.splitlines()) < 150


def test_the_readme_has_commands_to_run() -> None:
    assert len(COMMANDS) > 5


@pytest.mark.engine
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_readme_works(command: str, workspace: Path) -> None:
    words = shlex.split(command)[1:]
    done = subprocess.run(
        [sys.executable, "-m", "sandboxed_tools.cli.main", *words],
        stdin=subprocess.DEVNULL,
        cwd=workspace,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert "Traceback" not in done.stderr
    # Limits that the command itself runs into, a program that the image lacks, a finding: all are
    # answers. Wrong usage (2), a sandbox that failed (125) and a refusal (126) are not.
    assert done.returncode not in (2, 125, 126), done.stderr


@pytest.mark.engine
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("block", programs_in(README), ids=lambda text: text[:30])
def test_every_python_block_of_the_readme_runs_and_changes_nothing(
    block: str, workspace: Path
) -> None:
    before = files_of(workspace)
    run_program(block, workspace)
    assert files_of(workspace) == before
