"""The guide for tool authors: its programs run, and it names every method of the interface."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.documented import programs_in, run_program

from sandboxed_tools.tool.interface import GROUPS

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "tools.md").read_text("utf-8")


@pytest.mark.parametrize("block", programs_in(GUIDE))
def test_every_program_of_the_guide_runs(block: str, tmp_path: Path) -> None:
    assert run_program(block, tmp_path)


@pytest.mark.parametrize("group", GROUPS)
def test_the_guide_says_of_every_method_when_to_override_it(group: str) -> None:
    section = GUIDE.partition(f"### {group.capitalize()}\n")[2].partition("###")[0]
    for method in GROUPS[group]:
        assert re.search(rf"`{method}(?:\(.*?\))?`", section), method
