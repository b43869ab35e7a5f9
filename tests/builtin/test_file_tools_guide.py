"""The guide's example runs as it stands, and the tools work through a Toolbox."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.documented import programs_in, run_program

from sandboxed_tools import Policy, Toolbox
from sandboxed_tools.builtin.edit import Edit
from sandboxed_tools.builtin.glob import Glob
from sandboxed_tools.builtin.grep import Grep
from sandboxed_tools.builtin.read import Read
from sandboxed_tools.errors import PermissionDenied

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "file-tools.md").read_text("utf-8")


@pytest.mark.parametrize("block", programs_in(GUIDE))
def test_the_example_of_the_guide_runs(block: str, tmp_path: Path) -> None:
    printed = run_program(block, tmp_path)
    assert "('hello.py',)" in printed
    assert "+print('goodbye')" in printed
    assert (tmp_path / "demo" / "hello.py").read_text() == "print('goodbye')\n"


def test_reading_tools_run_unasked_and_writing_tools_do_not(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")

    async def inside() -> None:
        async with Toolbox(workspace=tmp_path) as box:
            for tool, raw in (
                (Glob, {"pattern": "*"}),
                (Grep, {"pattern": "one"}),
                (Read, {"file_path": "a"}),
            ):
                result = await box.call(tool.name, raw)
                assert result.placement.where == "host"
                assert "one" in result.text or "a" in result.text
            for tool_name, raw in (
                ("Edit", {"file_path": "a", "old_string": "one", "new_string": "two"}),
                ("Write", {"file_path": "b", "content": "x"}),
            ):
                with pytest.raises(PermissionDenied):
                    await box.call(tool_name, raw)

    anyio.run(inside)
    assert (tmp_path / "a").read_text() == "one\n"
    assert not (tmp_path / "b").exists()


def test_a_rule_that_allows_edits_lets_them_run(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    policy = Policy.model_validate({"allow": ["Edit"]})

    async def inside() -> None:
        async with Toolbox(workspace=tmp_path, policy=policy) as box:
            await box.call(Read, {"file_path": "a"})
            edit = {"file_path": "a", "old_string": "one", "new_string": "two"}
            assert (await box.call(Edit, edit)).output.replacements == 1

    anyio.run(inside)
    assert (tmp_path / "a").read_text() == "two\n"
