"""Every call leaves one record, and a call that cannot be recorded is not run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.runtime.recording_sandbox import RecordingSandbox

from sandboxed_tools.audit import AuditLog, AuditReader
from sandboxed_tools.builtin import Bash
from sandboxed_tools.errors import (
    AuditUnavailable,
    EngineNotFound,
    InvalidInput,
    PermissionDenied,
    SandboxedToolsError,
    ToolFailed,
    ToolNotFound,
)
from sandboxed_tools.policy import Policy
from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.tool import AnyTool, ToolInput, build_tool


class TextInput(ToolInput):
    text: str = ""
    password: str = ""


def python_tool(**stated: Any) -> AnyTool:
    options: dict[str, Any] = {
        "call": lambda tool_input, ctx: tool_input.text.upper(),
        "is_read_only": True,
        **stated,
    }
    return build_tool(name="Py", description="x", input_schema=TextInput, **options)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def log(folder: Path) -> Iterator[AuditLog]:
    made = AuditLog(folder)
    yield made
    made.close()


def broken(folder: Path) -> AuditLog:
    (folder / "audit").write_text("in the way")
    return AuditLog(folder)


async def test_a_call_leaves_who_what_where_why_and_how_it_ended(
    folder: Path, log: AuditLog, tmp_path: Path
) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    policy = Policy(allow=["Bash(rm:*)"])  # type: ignore[arg-type]
    async with Toolbox(
        [Bash], sandbox=RecordingSandbox(), workspace=workspace, policy=policy, audit=log
    ) as box:
        result = await box.call("Bash", {"command": "rm x"})
    (record,) = AuditReader(folder).last_calls(9)
    facts = record.facts
    assert record.call_id == result.call_id
    assert record.ended
    assert facts["tool"] == "Bash"
    assert facts["input"]["command"] == "rm x"
    assert facts["workspace"] == str(workspace)
    assert facts["placement"] == "container"
    assert "needs_sandbox" in [code for code, _ in facts["reasons"]]
    assert (facts["rule"], facts["layer"]) == ("Bash(rm:*)", "session")
    assert facts["limits"]["wall_s"] == 120
    assert facts["image"] == "sandboxed-tools/base"
    assert facts["network"] == "none"
    assert (facts["status"], facts["exit_code"]) == ("exited", 0)
    assert isinstance(facts["uid"], int)
    assert AuditReader(folder).verify().rows == 2


async def test_every_kind_of_refusal_and_failure_leaves_one_record(
    folder: Path, log: AuditLog
) -> None:
    def fail(tool_input: TextInput, ctx: object) -> str:
        raise ValueError("the moon")

    tool = python_tool(call=fail)
    sandbox = RecordingSandbox(fault=EngineNotFound("none"))
    calls: list[tuple[Any, object, type[SandboxedToolsError], str]] = [
        ("Nope", {}, ToolNotFound, "tool_not_found"),
        ("Py", {"nope": 1}, InvalidInput, "invalid_input"),
        ("Py", 7, InvalidInput, "invalid_input"),
        ("Bash", {"command": "dd if=x"}, PermissionDenied, "permission_denied"),
        ("Py", {}, ToolFailed, "tool_failed"),
        ("Bash", {"command": "rm x"}, EngineNotFound, "engine_not_found"),
    ]
    policy = Policy(deny=["Bash(dd:*)"])  # type: ignore[arg-type]
    async with Toolbox(
        [tool, Bash], trusted=(tool,), sandbox=sandbox, policy=policy, audit=log
    ) as box:
        for name, raw, error, _ in calls:
            with pytest.raises(error):
                await box.call(name, raw)
    records = AuditReader(folder).last_calls(99)[::-1]
    assert [record.facts["error"] for record in records] == [code for *_, code in calls]
    assert all(record.ended for record in records)
    assert "Bash(dd:*)" in records[3].facts["origin"]
    assert AuditReader(folder).verify().holds


async def test_a_cancelled_call_has_an_outcome(folder: Path, log: AuditLog) -> None:
    started = anyio.Event()

    async def forever(tool_input: TextInput, ctx: object) -> None:
        started.set()
        await anyio.sleep_forever()

    tool = python_tool(call=forever)
    async with Toolbox([tool], trusted=(tool,), audit=log) as box:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(box.call, tool, {})
            await started.wait()
            tasks.cancel_scope.cancel()
    (record,) = AuditReader(folder).last_calls(9)
    assert record.facts["outcome"] == "cancelled"


async def test_secrets_do_not_reach_a_record(folder: Path, log: AuditLog) -> None:
    shy = python_tool(redact=lambda tool_input: {"text": "kept to itself"})
    for tool in (python_tool(), shy, python_tool(redact=lambda _: 1 / 0)):
        async with Toolbox([tool], trusted=(tool,), audit=log) as box:
            await box.call(tool, {"text": "TOKEN=hunter2hunter2", "password": "hunter2hunter2"})
    log.close()
    for path in (folder / "audit").iterdir():
        assert b"hunter2" not in path.read_bytes()


async def test_a_call_that_cannot_be_recorded_is_not_run(folder: Path) -> None:
    ran: list[str] = []
    tool = python_tool(call=lambda tool_input, ctx: ran.append("ran"))
    async with Toolbox([tool], trusted=(tool,), audit=broken(folder)) as box:
        with pytest.raises(AuditUnavailable):
            await box.call(tool, {})
        with pytest.raises(ToolNotFound):
            await box.call("Nope", {})
    assert not ran


@pytest.mark.parametrize("audit", ["best-effort", "off"])
async def test_unless_the_policy_says_otherwise(
    folder: Path, audit: str, caplog: pytest.LogCaptureFixture
) -> None:
    tool = python_tool()
    policy = Policy.model_validate({"audit": audit})
    async with Toolbox([tool], trusted=(tool,), policy=policy, audit=broken(folder)) as box:
        assert (await box.call(tool, {"text": "a"})).output == "A"
    assert ("was not recorded" in caplog.text) == (audit == "best-effort")


async def test_an_input_of_50_megabytes_is_judged_and_recorded_small(
    folder: Path, log: AuditLog
) -> None:
    tool = python_tool(call=lambda tool_input, ctx: len(tool_input.text))
    async with Toolbox([tool], trusted=(tool,), audit=log) as box:
        assert (await box.call(tool, {"text": "x" * 50_000_000})).output == 50_000_000
        with pytest.raises(InvalidInput):
            await box.call("Py", {"text": "x", "y" * 50_000_000: 1})
    assert (folder / "audit" / "audit.sqlite3-wal").stat().st_size < 1_000_000


async def test_a_timeout_that_cannot_be_one_is_the_tools_fault_and_nothing_runs() -> None:
    for wrong in (0, -1, float("nan"), float("inf"), "soon", 1e9):
        tool = python_tool(timeout=lambda _, wrong=wrong: wrong)
        async with Toolbox([tool], trusted=(tool,)) as box:
            with pytest.raises(ToolFailed, match="timeout"):
                await box.call(tool, {})


async def test_a_coroutine_that_takes_too_long_is_stopped() -> None:
    async def forever(tool_input: TextInput, ctx: object) -> None:
        await anyio.sleep_forever()

    tool = python_tool(call=forever, timeout=0.05)
    async with Toolbox([tool], trusted=(tool,)) as box:
        with pytest.raises(ToolFailed, match=r"longer than 0\.05"):
            await box.call(tool, {})
