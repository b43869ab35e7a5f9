"""The guide to changes: what it shows is run, in its order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.engine,
    pytest.mark.usefixtures("base_image"),
    pytest.mark.timeout(600),  # a dozen programs, one after the other
]

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "changes.md").read_text("utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    return str(found)


def run(words: list[str], folder: Path) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_command_of_the_guide_works(
    tmp_path: Path,
) -> None:
    shown = run(["bash", "-euo", "pipefail", "-c", block("sh")], tmp_path)
    assert "+2" in shown
    assert "applied" in shown
    assert "undone" in shown
    # Undone was the newest, the protected rest; the first part stays.
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == ["new", "notes.txt"]
    assert (tmp_path / "demo" / "notes.txt").read_text() == "one\n2\n"


def test_the_program_of_the_guide_prints_what_it_says(tmp_path: Path) -> None:
    shown = run([sys.executable, "-W", "error", "-c", block("python")], tmp_path)
    assert shown.splitlines() == re.findall(r"# (\S.*)$", block("python"), re.MULTILINE)
    assert list((tmp_path / "demo").iterdir()) == []
