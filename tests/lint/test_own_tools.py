"""Our own tools keep our own rules, and a change of what holds for them is a reviewed one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "command", [("lint", "src/sandboxed_tools", "examples"), ("defaults", "check")]
)
def test_the_checks_of_make_check_find_nothing(command: tuple[str, ...]) -> None:
    program = [sys.executable, "-c", "from sandboxed_tools.cli.main import main; main()"]
    done = subprocess.run(
        [*program, *command], cwd=ROOT, capture_output=True, text=True, timeout=170, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
