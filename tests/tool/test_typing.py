"""A wrong type is an error before anything runs: mypy over files that must pass and must fail."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

# The first run reads and checks everything that is imported.
pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).parents[2]
FILES = ROOT / "tests" / "typing"


def mypy(file: Path) -> tuple[int, set[int]]:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", file],
        cwd=ROOT,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    # mypy names a file by its path from here, whichever way it was given.
    name = re.escape(str(file.relative_to(ROOT)))
    lines = re.findall(rf"^(?:{ROOT}/)?{name}:(\d+): error:", done.stdout, re.MULTILINE)
    assert "error:" not in done.stdout or lines, done.stdout
    return done.returncode, {int(line) for line in lines}


def test_what_a_typed_user_writes_passes() -> None:
    assert mypy(FILES / "good.py") == (0, set())


def test_every_wrong_use_is_an_error_on_its_own_line_and_nothing_else_is() -> None:
    file = FILES / "bad.py"
    expected = {
        number
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if line.endswith("# E")
    }
    assert len(expected) > 8
    assert mypy(file) == (1, expected)
