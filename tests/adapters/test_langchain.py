"""The tools in LangChain, by its own package."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from tests.runtime.recording_sandbox import RecordingSandbox

from sandboxed_tools import ConfigurationError, Toolbox, ToolInput, build_tool
from sandboxed_tools.adapters.langchain import langchain_tools
from sandboxed_tools.errors import EngineNotFound
from sandboxed_tools.tool import Command


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Toolbox]:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    async with Toolbox(workspace=folder, sandbox=RecordingSandbox()) as opened:
        yield opened


async def call(box: Toolbox, name: str, arguments: dict[str, Any]) -> ToolMessage:
    tool = {tool.name: tool for tool in langchain_tools(box)}[name]
    message = await tool.ainvoke({"type": "tool_call", "id": "1", "name": name, "args": arguments})
    assert isinstance(message, ToolMessage)
    return message


async def test_a_call_gives_text_and_the_whole_result(box: Toolbox) -> None:
    message = await call(box, "Glob", {"pattern": "*.txt"})
    assert message.status == "success"
    assert "a.txt" in message.content
    assert message.artifact.placement.where == "host"
    contained = await call(box, "Bash", {"command": "make"})
    assert contained.artifact.exec.stdout == b"recorded\n"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Glob", {}),
        ("Glob", {"pattern": 3}),
        ("Glob", {"pattern": "*", "extra": 1}),
        ("Write", {"file_path": "x", "content": "y"}),
    ],
)
async def test_what_is_refused_is_a_message_with_the_status_error(
    box: Toolbox, name: str, arguments: dict[str, Any]
) -> None:
    message = await call(box, name, arguments)
    assert message.status == "error"
    assert message.content


async def test_a_sandbox_that_is_not_there_stops_the_program(tmp_path: Path) -> None:
    sandbox = RecordingSandbox(fault=EngineNotFound("No engine."))
    async with Toolbox(sandbox=sandbox) as box:
        with pytest.raises(EngineNotFound):
            await call(box, "Bash", {"command": "make"})


async def test_a_model_is_shown_the_closed_schema(box: Toolbox) -> None:
    for tool in langchain_tools(box):
        parameters = convert_to_openai_tool(tool)["function"]["parameters"]
        assert parameters["additionalProperties"] is False


async def test_a_field_that_langchain_keeps_for_itself_is_refused() -> None:
    class Taken(ToolInput):
        config: str

    tool = build_tool(
        name="Taken",
        description="x",
        input_schema=Taken,
        command=lambda tool_input: Command(("true",)),
    )
    async with Toolbox([tool], sandbox=RecordingSandbox()) as box:
        with pytest.raises(ConfigurationError, match="config"):
            langchain_tools(box)
