"""A user's own tools beside the shipped ones, as ``--tools`` names them."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp import Client
from tests.mcp.serving import stdio_server, texts

from sandboxed_tools.builtin import SHIPPED

MODULE = """
from sandboxed_tools import Command, ToolInput, build_tool


class WordInput(ToolInput):
    word: str


def shout(tool_input: WordInput, ctx: object) -> str:
    return tool_input.word.upper()


Echo = build_tool(
    name="Echo", description="Print a word.", input_schema=WordInput,
    command=lambda tool_input: Command(("printf", "%s", tool_input.word)),
)
TOOLS = [
    build_tool(
        name="Shout", description="In capitals.", input_schema=WordInput, call=shout,
        carry=("mine",),
    ),
]
"""


@pytest.mark.engine
async def test_tools_of_a_user_s_module_are_listed_and_run_in_containers(
    tmp_path: Path, python_image: str
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").touch()
    (tmp_path / "mine" / "words.py").write_text(MODULE)
    words = ("--tools", "mine.words:Echo", "--tools", "mine.words:TOOLS")
    async with Client(stdio_server(*words, cwd=tmp_path), mode="legacy") as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(listed) == [*(tool.name for tool in SHIPPED), "Echo", "Shout"]
        for name in ("Echo", "Shout"):
            assert listed[name].input_schema["additionalProperties"] is False
            hints = listed[name].annotations
            assert hints is not None
            assert hints.destructive_hint is True, "it states nothing"
        echoed = await client.call_tool("Echo", {"word": "hi; $(id)"})
        assert echoed.structured_content["stdout"] == "hi; $(id)"
        shouted = await client.call_tool("Shout", {"word": "hi"})
        assert "HI" in texts(shouted)
        for result in (echoed, shouted):
            assert result.structured_content["placement"] == "container"
        wrong = await client.call_tool("Echo", {"word": 3})
        assert wrong.is_error
