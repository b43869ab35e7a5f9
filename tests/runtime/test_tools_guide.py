"""The guide for tool authors: its programs run, and it names every method of the interface."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sandboxed_tools.tool.interface import GROUPS

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "tools.md").read_text("utf-8")


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL))
def test_every_program_of_the_guide_runs(block: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("group", GROUPS)
def test_the_guide_says_of_every_method_when_to_override_it(group: str) -> None:
    section = GUIDE.partition(f"### {group.capitalize()}\n")[2].partition("###")[0]
    for method in GROUPS[group]:
        assert re.search(rf"`{method}(?:\(.*?\))?`", section), method
