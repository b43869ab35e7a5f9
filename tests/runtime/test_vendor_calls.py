"""A model's tool calls in its vendor's form: each one answered, in order, errors marked."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from tests.runtime.recording_sandbox import RecordingSandbox

from sandboxed_tools.errors import InvalidInput, SandboxUnavailable
from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.tool import ExecResult

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.txt").write_text("hello\n")
    (folder / "a.png").write_bytes(PNG)
    return folder


@pytest.fixture
async def box(workspace: Path) -> AsyncIterator[Toolbox]:
    async with Toolbox(workspace=workspace, sandbox=RecordingSandbox()) as opened:
        yield opened


def tool_use(call_id: str, name: str, tool_input: object) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": tool_input}


def function_call(call_id: str, name: str, arguments: object) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


async def test_blocks_of_a_message_are_answered_in_order(box: Toolbox) -> None:
    answers = await box.handle_anthropic(
        [
            {"type": "text", "text": "Let me look."},
            tool_use("1", "Read", {"file_path": "a.txt"}),
            tool_use("2", "Nope", {}),
            tool_use("3", "Bash", {"command": "make"}),
            tool_use("4", "Glob", {"pattern": 3}),
            tool_use("5", "Glob", {"pattern": "*.txt"}),
        ]
    )
    assert [answer["tool_use_id"] for answer in answers] == ["1", "2", "3", "4", "5"]
    assert [answer["is_error"] for answer in answers] == [False, True, False, True, False]
    assert "hello" in answers[0]["content"]
    assert "recorded" in answers[2]["content"]


async def test_the_anthropic_sdks_own_types_go_in_and_come_out(box: Toolbox) -> None:
    from anthropic.types import Message, ToolResultBlockParam

    message = Message.model_validate(
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "x",
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
            "content": [
                {"type": "text", "text": "I look."},
                tool_use("toolu_1", "Read", {"file_path": "a.txt"}),
                tool_use("toolu_2", "Read", {"file_path": "a.png"}),
            ],
        }
    )
    answers = await box.handle_anthropic(message.content)
    adapter = TypeAdapter(list[ToolResultBlockParam])
    assert len(adapter.validate_python(answers)) == 2
    image = answers[1]["content"][1]
    assert base64.b64decode(image["source"]["data"]) == PNG
    assert image["source"]["media_type"] == "image/png"


@pytest.mark.parametrize(
    "data",
    [PNG[:-4], PNG[:20] + b"\xff" + PNG[21:], PNG + b"more", b"\xff\xd8\xff", b"GIF89a"],
    ids=["cut off", "wrong checksum", "more behind it", "only says JPEG", "only says GIF"],
)
async def test_a_broken_picture_ends_no_conversation(
    box: Toolbox, workspace: Path, data: bytes
) -> None:
    (workspace / "a.png").write_bytes(data)
    (answer,) = await box.handle_anthropic([tool_use("1", "Read", {"file_path": "a.png"})])
    assert isinstance(answer["content"], str)
    assert "not shown" in answer["content"]
    assert answer["is_error"] is False


async def test_the_answers_to_one_message_hold_a_bounded_number_of_pictures(box: Toolbox) -> None:
    calls = [tool_use(str(n), "Read", {"file_path": "a.png"}) for n in range(12)]
    answers = await box.handle_anthropic(calls)
    assert [isinstance(a["content"], list) for a in answers] == [True] * 8 + [False] * 4


async def test_the_openai_sdks_own_types_go_in_and_come_out(box: Toolbox) -> None:
    from openai.types.chat import ChatCompletionMessage, ChatCompletionToolMessageParam
    from openai.types.responses import ResponseFunctionToolCall
    from openai.types.responses.response_input_param import FunctionCallOutput

    arguments = json.dumps({"file_path": "a.txt"})
    item = ResponseFunctionToolCall.model_validate(function_call("call_1", "Read", arguments))
    (answer,) = await box.handle_openai([item])
    assert TypeAdapter(FunctionCallOutput).validate_python(answer)
    assert answer["call_id"] == "call_1"
    assert "hello" in answer["output"]

    message = ChatCompletionMessage.model_validate(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "type": "function",
                    "id": "call_2",
                    "function": {"name": "Read", "arguments": arguments},
                }
            ],
        }
    )
    (chat,) = await box.handle_openai(message.tool_calls or [])
    assert TypeAdapter(ChatCompletionToolMessageParam).validate_python(chat)
    assert (chat["role"], chat["tool_call_id"]) == ("tool", "call_2")


@pytest.mark.parametrize(
    "arguments",
    ["", "{", "[]", "null", "3", "[" * 100_000, '{"pattern": NaN}', 7, None, {"pattern": "*"}],
)
async def test_arguments_of_any_shape_are_answered_with_an_error(
    box: Toolbox, arguments: object
) -> None:
    answers = await box.handle_openai(
        [function_call("1", "Glob", arguments), function_call("2", "Glob", '{"pattern": "*.txt"}')]
    )
    assert [answer["call_id"] for answer in answers] == ["1", "2"]
    assert answers[0]["output"].startswith("Error: ")
    assert "a.txt" in answers[1]["output"]


async def test_a_repeated_id_is_answered_twice(box: Toolbox) -> None:
    answers = await box.handle_anthropic([tool_use("1", "Glob", {"pattern": "*"})] * 3)
    assert [answer["tool_use_id"] for answer in answers] == ["1"] * 3
    assert not any(answer["is_error"] for answer in answers)


@pytest.mark.parametrize(
    "broken", [{"id": None}, {"id": ""}, {"id": 3}, {"name": None}, {"name": ["Bash"]}]
)
async def test_a_block_that_nobody_could_answer_is_refused_before_anything_runs(
    box: Toolbox, broken: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        await box.handle_anthropic([{**tool_use("1", "Glob", {}), **broken}])


async def test_a_flood_of_calls_is_refused_whole(box: Toolbox) -> None:
    with pytest.raises(InvalidInput, match="at most 1024"):
        await box.handle_anthropic(
            [tool_use(str(n), "Glob", {"pattern": "*"}) for n in range(2000)]
        )


async def test_nothing_to_do_is_answered_with_nothing(box: Toolbox) -> None:
    assert await box.handle_anthropic([]) == []
    assert await box.handle_openai([{"type": "message"}, {}, None]) == []


async def test_an_engine_that_is_down_is_an_error_of_the_call(workspace: Path) -> None:
    sandbox = RecordingSandbox(fault=SandboxUnavailable("The engine is down."))
    async with Toolbox(workspace=workspace, sandbox=sandbox) as box:
        (answer,) = await box.handle_anthropic([tool_use("1", "Bash", {"command": "make"})])
    assert answer["is_error"] is True
    assert "engine is down" in answer["content"]


async def test_a_command_that_was_ended_is_an_error_and_one_that_failed_is_not(
    workspace: Path,
) -> None:
    class Ended(RecordingSandbox):
        result = ExecResult("exited", exit_code=1)

        async def run(self, *arguments: Any, **options: Any) -> ExecResult:
            return self.result

    sandbox = Ended()
    async with Toolbox(workspace=workspace, sandbox=sandbox) as box:
        for result, is_error in (
            (ExecResult("exited", exit_code=1), False),
            (ExecResult("timeout"), True),
            (ExecResult("oom"), True),
        ):
            sandbox.result = result
            (answer,) = await box.handle_anthropic([tool_use("1", "Bash", {"command": "make"})])
            assert answer["is_error"] is is_error, result
