"""Whatever an author's function raises, a call ends in a result or a typed error, and the program
goes on."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.recording_sandbox import RecordingSandbox

from sandboxed_tools.errors import SandboxedToolsError
from sandboxed_tools.policy import Policy
from sandboxed_tools.runtime import Finished, Refused, Toolbox
from sandboxed_tools.tool import AnyTool, Command, ToolInput, build_tool


class TextInput(ToolInput):
    text: str = ""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class Raiser:
    """A function of a tool's author; ``calls`` says that it was asked at all."""

    def __init__(self, error: BaseException) -> None:
        self.calls = 0
        self._error = error

    def __call__(self, *_: object) -> Any:
        self.calls += 1
        raise self._error


async def agrees(_: object) -> bool:
    return True


def tool(**stated: Any) -> AnyTool:
    return build_tool(name="T", description="d", input_schema=TextInput, **stated)


def work(tool_input: TextInput, ctx: Any) -> str:
    ctx.progress(1)
    return tool_input.text


CONTAINED: dict[str, Any] = {"command": lambda _: Command(("true",)), "needs_sandbox": True}
FAILING: dict[str, Any] = {"call": Raiser(ValueError("x"))}
BESIDE = {
    "command": CONTAINED,
    "map_result": CONTAINED,
    "on_error": FAILING,
    "render_error": FAILING,
    "paths_written": {"call": work, "is_open_world": False},
}
"""What else a tool states, so that the function is asked; else its work does what it should."""

ASKS = {"ask": ["T(y)"]}
RULES: dict[str, Any] = {
    "permission_pattern": ASKS,
    "paths_read": ASKS,
    "paths_written": {"mode": "accept-edits"},
    "render_rejected": {"deny": ["T"]},
}
"""What a policy holds without which the function is not asked."""


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), SystemExit(3), Unprintable()],
    ids=["ValueError", "exit", "unprintable"],
)
@pytest.mark.parametrize(
    "name",
    [
        *("validate_input", "timeout", "check_permissions", "permission_pattern", "paths_read"),
        *("paths_written", "is_read_only", "is_concurrency_safe", "is_enabled", "flag_reasons"),
        *("requires_confirmation", "needs_sandbox", "is_idempotent", "is_destructive", "call"),
        *("render_use", "render_progress", "render_result", "render_error"),
        *("render_rejected", "to_model_text", "redact", "on_start", "on_progress", "on_success"),
        *("on_error", "setup", "teardown", "command", "map_result"),
    ],
)
async def test_a_function_that_raises_is_a_fault_of_its_tool(
    name: str, error: BaseException, tmp_path: Path
) -> None:
    function = Raiser(error)
    made = tool(**{**BESIDE.get(name, {"call": work}), name: function})
    policy = Policy.model_validate({"mode": "auto", **RULES.get(name, {})})
    with suppress(SandboxedToolsError) if name == "setup" else nullcontext():
        async with Toolbox(
            [made],
            trusted=(made,),
            workspace=tmp_path,
            sandbox=RecordingSandbox(),
            policy=policy,
            confirmer=agrees,
        ) as box:
            with suppress(SandboxedToolsError):
                assert (await box.call("T", {"text": "a"})).tool == "T"
            async with box.executor() as executor:
                executor.submit("1", "T", {"text": "a"})
                (last,) = await executor.results()
            assert isinstance(last, Finished | Refused)
    assert function.calls
