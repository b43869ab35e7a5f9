"""Invariant 9: only valid input reaches a tool; a model is told what helps; secrets stay put."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import psutil
import pytest

from sandboxed_tools.errors import (
    InvalidInput,
    SandboxedToolsError,
    SandboxUnavailable,
    ToolNotFound,
)
from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.testing.conformance.bench import until
from sandboxed_tools.tool import AnyTool, Command, Limits, ToolInput, build_tool

if TYPE_CHECKING:
    from sandboxed_tools.sandbox.docker import DockerSandbox

SECRET = "s3cr3t-0123456789abcdef"


class Amount(ToolInput):
    amount: int
    note: str = ""


WRONG_INPUTS: dict[str, object] = {
    "missing": {},
    "wrong type": {"amount": "many"},
    "extra field": {"amount": 1, "sandbox": False},
    "flag smuggled in": {"amount": 1, "needs_sandbox": False},
    "no object": [1],
    "text": "amount=1",
    "nothing": None,
    "refused by the tool": {"amount": -1},
    "dunder": {"amount": 1, "__class__": "x"},
}


@pytest.mark.parametrize("kind", WRONG_INPUTS)
def test_no_code_of_the_tool_sees_an_invalid_input(kind: str) -> None:
    seen: list[Amount] = []

    def is_read_only(tool_input: Amount) -> bool:
        seen.append(tool_input)
        return True

    tool: AnyTool = build_tool(
        name="Pay",
        description="Pays.",
        input_schema=Amount,
        call=lambda tool_input, _: seen.append(tool_input),
        validate_input=lambda tool_input: "amount is negative" if tool_input.amount < 0 else None,
        is_read_only=is_read_only,
        is_concurrency_safe=True,
    )

    async def main() -> InvalidInput:
        async with Toolbox([tool], trusted=[tool]) as box:
            with pytest.raises(InvalidInput) as caught:
                await box.call("Pay", WRONG_INPUTS[kind])
            return caught.value

    error = anyio.run(main)
    assert seen == []
    assert str(error)


def test_an_invalid_input_names_its_fields_and_what_was_expected() -> None:
    async def main() -> InvalidInput:
        async with Toolbox() as box:
            with pytest.raises(InvalidInput) as caught:
                await box.call("Bash", {"comand": "ls", "timeout": "abc"})
            return caught.value

    error = anyio.run(main)
    assert {item.path for item in error.fields} >= {"command", "comand", "timeout"}
    assert "command" in error.for_model


@pytest.mark.parametrize("timeout", [0, -1, 1e9, "abc", float("nan"), float("inf"), True])
def test_a_timeout_that_is_none_is_refused_before_anything_runs(timeout: object) -> None:
    async def main() -> None:
        async with Toolbox() as box:
            with pytest.raises(InvalidInput, match="timeout"):
                await box.call("Bash", {"command": "touch x", "timeout": timeout})

    anyio.run(main)


def test_a_tool_that_does_not_exist_is_an_error_that_helps() -> None:
    async def main() -> str:
        async with Toolbox() as box:
            with pytest.raises(ToolNotFound) as caught:
                await box.call("bash", {"command": "ls"})
            return caught.value.for_model

    assert "Bash" in anyio.run(main)


def test_what_the_operator_is_told_does_not_reach_a_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/{SECRET}.sock")

    async def main() -> SandboxedToolsError:
        async with Toolbox() as box:
            with pytest.raises(SandboxUnavailable) as caught:
                await box.call("Bash", {"command": "touch x"})
            return caught.value

    error = anyio.run(main)
    assert error.for_model
    assert "Traceback" not in error.for_model


@pytest.mark.engine
def test_a_secret_in_the_environment_reaches_the_command_and_nothing_else(
    sandbox: DockerSandbox, base_image: str, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere: list[str] = []

    async def main() -> None:
        command = Command(
            ("bash", "-c", 'echo "${#TOKEN}"; read -r line'),
            env={"PATH": "/usr/bin:/bin", "TOKEN": SECRET},
            stdin=wait_for_end(),
        )
        seen: list[bytes] = []
        async with anyio.create_task_group() as group:
            spec = SandboxSpec(base_image, Limits.of(wall_s=30))
            group.start_soon(sandbox.run, spec, command, lambda _, data: seen.append(data))
            with anyio.fail_after(30):
                await until(lambda: seen)
            for process in psutil.process_iter(["cmdline"]):
                elsewhere.extend(word for word in process.info["cmdline"] or () if SECRET in word)
            done.set()
        assert b"".join(seen) == f"{len(SECRET)}\n".encode()

    done = anyio.Event()

    async def wait_for_end() -> Any:
        await done.wait()
        yield b"end\n"

    with caplog.at_level(logging.DEBUG):
        anyio.run(main)
    assert elsewhere == []
    assert SECRET not in caplog.text
