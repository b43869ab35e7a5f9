"""Whatever an author's function raises, a call ends in a result or a typed error, and the program
goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from tests.runtime.recording_sandbox import RecordingSandbox

from sandboxed_tools.errors import SandboxedToolsError
from sandboxed_tools.policy import Policy
from sandboxed_tools.runtime import Finished, Refused, Toolbox
from sandboxed_tools.tool import AnyTool, Command, ToolInput, build_tool


class TextInput(ToolInput):
    text: str = ""


def raiser(error: BaseException) -> Callable[..., Any]:
    def function(*_: object) -> Any:
        raise error

    return function


async def agrees(_: object) -> bool:
    return True


def tool(**stated: Any) -> AnyTool:
    return build_tool(name="T", description="d", input_schema=TextInput, **stated)


def work(tool_input: TextInput, ctx: Any) -> str:
    ctx.progress(1)
    return tool_input.text


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3)], ids=["ValueError", "exit"])
@pytest.mark.parametrize(
    "name",
    [
        *("validate_input", "timeout", "check_permissions", "permission_pattern", "paths_read"),
        *("paths_written", "is_read_only", "is_concurrency_safe", "is_enabled", "flag_reasons"),
        *("requires_confirmation", "needs_sandbox", "is_idempotent", "is_destructive", "call"),
        *("summarize_use", "render_use", "render_progress", "render_result", "render_error"),
        *("render_rejected", "to_model_text", "redact", "on_start", "on_progress", "on_success"),
        *("on_error", "setup", "teardown", "command", "map_result"),
    ],
)
async def test_a_function_that_raises_is_a_fault_of_its_tool(
    name: str, error: BaseException
) -> None:
    stated: dict[str, Any] = {"command": lambda _: Command(("true",)), "needs_sandbox": True}
    if name not in ("command", "map_result"):
        stated = {"call": raiser(ValueError("x")) if name in ("render_error",) else work}
    made = tool(**{**stated, name: raiser(error)})
    policy = Policy.model_validate({"ask": ["T(y)"], "deny": ["T(x)"], "allow": ["T(z)"]})
    with suppress(SandboxedToolsError) if name == "setup" else nullcontext():
        async with Toolbox(
            [made], trusted=(made,), sandbox=RecordingSandbox(), policy=policy, confirmer=agrees
        ) as box:
            with suppress(SandboxedToolsError):
                assert (await box.call("T", {"text": "a"})).tool == "T"
            async with box.executor() as executor:
                executor.submit("1", "T", {"text": "a"})
                (last,) = await executor.results()
            assert isinstance(last, Finished | Refused)
