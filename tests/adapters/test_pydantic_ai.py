"""The tools in pydantic-ai, by its own package and its own test model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from tests.runtime.recording_sandbox import RecordingSandbox

from sandboxed_tools import Toolbox
from sandboxed_tools.adapters.pydantic_ai import pydantic_ai_toolset
from sandboxed_tools.errors import EngineNotFound


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Toolbox]:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    async with Toolbox(workspace=folder, sandbox=RecordingSandbox()) as opened:
        yield opened


async def answers(box: Toolbox, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """What the model is answered when it asks for these calls in one message."""
    seen: list[Any] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart(name, args) for name, args in calls])
        seen.extend(messages[-1].parts)
        return ModelResponse(parts=[TextPart("done")])

    agent = Agent(FunctionModel(model), toolsets=[pydantic_ai_toolset(box)])
    assert (await agent.run("go")).output == "done"
    return seen


async def test_a_call_gives_text_and_the_whole_result(box: Toolbox) -> None:
    host, contained = await answers(
        box, ("Glob", {"pattern": "*.txt"}), ("Bash", {"command": "make"})
    )
    assert isinstance(host, ToolReturnPart)
    assert "a.txt" in str(host.content)
    assert host.metadata.placement.where == "host"
    assert contained.metadata.exec.stdout == b"recorded\n"


async def test_a_wrong_input_is_a_retry_that_names_the_field(box: Toolbox) -> None:
    for wrong in ({}, {"pattern": 3}, {"pattern": "*", "extra": 1}):
        (answer,) = await answers(box, ("Glob", wrong))
        assert "does not fit its schema" in str(answer.content)
        assert answer.outcome == "retried"


async def test_a_refusal_is_a_failed_result(box: Toolbox) -> None:
    (answer,) = await answers(box, ("Write", {"file_path": "x", "content": "y"}))
    assert "refused" in str(answer.content)
    assert answer.outcome == "failed"


async def test_a_sandbox_that_is_not_there_stops_the_program() -> None:
    async with Toolbox(sandbox=RecordingSandbox(fault=EngineNotFound("No engine."))) as box:
        with pytest.raises(EngineNotFound):
            await answers(box, ("Bash", {"command": "make"}))


async def test_a_model_is_shown_the_closed_schema(box: Toolbox) -> None:
    toolset = pydantic_ai_toolset(box)
    assert set(toolset.tools) == {tool.name for tool in box.tools}
    for tool in toolset.tools.values():
        assert tool.function_schema.json_schema["additionalProperties"] is False
    assert toolset.tools["Bash"].sequential
    assert not toolset.tools["Glob"].sequential
