"""The whole call moves: a Python tool that belongs in a container executes there, on the engine."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from sandboxed_tools.errors import InvalidInput, NotAuthorized, NotMovable, RemoteError, ToolFailed
from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.sandbox.docker import DockerSandbox
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.tool import AnyTool, Context, Limits, ToolInput, build_tool
from sandboxed_tools.workspace import WorkspaceRoot, WorkspaceViews

pytestmark = pytest.mark.engine


class In(ToolInput):
    text: str = ""
    number: int = 0


class Out(BaseModel):
    text: str
    numbers: tuple[int, ...] = ()


def tool(call: Callable[..., Any], **stated: Any) -> AnyTool:
    options: dict[str, Any] = {
        "needs_sandbox": True,
        "requires_confirmation": False,
        "carry": (__name__,),
        **stated,
    }
    return build_tool(name="Moves", description="x", input_schema=In, call=call, **options)


@pytest.fixture(scope="module")
async def sandbox(engine: Engine, python_image: str) -> AsyncIterator[DockerSandbox]:
    box = DockerSandbox(engine, views=WorkspaceViews())
    try:
        yield box
    finally:
        await box.aclose()


async def call(
    sandbox: DockerSandbox,
    work: Callable[..., Any],
    raw: dict[str, Any] | None = None,
    *,
    workspace: Path | None = None,
    limits: dict[str, Any] | None = None,
    on_progress: Callable[[Any], None] | None = None,
    changes: Any = "discard",
    **stated: Any,
) -> Any:
    moved = tool(work, **stated)
    async with Toolbox(
        [moved],
        sandbox=sandbox,
        workspace=workspace,
        changes=changes,
        limits=Limits.of(**{"wall_s": 120, **(limits or {})}),
    ) as box:
        return await box.call(moved, raw or {}, on_progress=on_progress)


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(120):
        while True:
            if condition():
                return
            await anyio.sleep(0.05)


# ---- what it is for


def where(tool_input: In, ctx: Context[Any]) -> Out:
    own = open("/proc/1/comm").read().strip()  # noqa: SIM115
    return Out(text=f"{own} {os.getuid() != 0} {tool_input.text}", numbers=(1, 2))


async def test_a_call_executes_in_a_container_and_its_output_is_the_model_again(
    sandbox: DockerSandbox,
) -> None:
    result = await call(sandbox, where, {"text": "é"})
    assert result.placement.where == "container"
    assert result.output == Out(text="launcher True é", numbers=(1, 2))
    assert result.exec.image.startswith("sha256:")
    assert result.exec.phases.run_s > 0


async def test_an_input_that_is_no_unicode_is_refused_before_anything_runs(
    sandbox: DockerSandbox,
) -> None:
    with pytest.raises(InvalidInput, match="surrogate"):
        await call(sandbox, where, {"text": "\udcff"})


async def asynchronous(tool_input: In, ctx: Context[Any]) -> list[str]:
    await asyncio.sleep(0)
    done = await ctx.execute(__import__("sandboxed_tools").Command(("echo", "child")))
    return [done.stdout_text, type(ctx).__name__]


async def test_asynchronous_work_runs_and_may_run_children(sandbox: DockerSandbox) -> None:
    assert (await call(sandbox, asynchronous)).output == ["child\n", "InsideContext"]


def with_context(tool_input: In, ctx: Any) -> dict[str, Any]:
    for number in range(3):
        ctx.progress({"step": number})
    ctx.log("a line\x1b[31m of the log")
    done = ctx.run(["sh", "-c", "cat; echo err >&2; exit 3"], stdin=b"in")
    return {
        "cwd": str(ctx.cwd),
        "call_id": ctx.call_id,
        "child": [done.exit_code, done.stdout_text, done.stderr_text],
        "late": ctx.run(["sleep", "100"], timeout_s=0.2).status,
    }


async def test_the_context_inside_offers_directory_progress_log_and_children(
    sandbox: DockerSandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Any] = []
    with caplog.at_level("INFO", logger="sandboxed_tools"):
        result = await call(sandbox, with_context, workspace=tmp_path, on_progress=told.append)
    assert told == [{"step": 0}, {"step": 1}, {"step": 2}]
    assert result.output == {
        "cwd": str(tmp_path),
        "call_id": result.call_id,
        "child": [3, "in", "err\n"],
        "late": "timeout",
    }
    lines = [record.getMessage() for record in caplog.records]
    assert any("a line" in line and "\x1b" not in line for line in lines)


def reports(tool_input: In, ctx: Context[Any]) -> None:
    for number in range(4):
        ctx.progress(number)


async def test_a_listener_that_is_slower_than_the_call_is_still_told_everything(
    sandbox: DockerSandbox,
) -> None:
    told: list[int] = []

    def slow(number: int) -> None:
        time.sleep(0.5)
        told.append(number)

    await call(sandbox, reports, on_progress=slow)
    assert told == [0, 1, 2, 3]


def asks_for_the_root(tool_input: In, ctx: Any) -> None:
    ctx.resource(WorkspaceRoot)


def asks_for_int(tool_input: In, ctx: Any) -> None:
    ctx.resource(int)


async def test_what_is_the_clients_own_does_not_travel(sandbox: DockerSandbox) -> None:
    with pytest.raises(NotMovable):
        await call(sandbox, asks_for_the_root)
    with pytest.raises(ToolFailed, match=NotAuthorized.__name__):
        await call(sandbox, asks_for_int)


def writes(tool_input: In, ctx: Context[Any]) -> str:
    Path("new.txt").write_text("new")
    Path("/workspace/second.txt").write_text("2")
    return Path("old.txt").read_text()


async def test_the_workspace_is_seen_copy_on_write(sandbox: DockerSandbox, tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("old")
    result = await call(sandbox, writes, workspace=tmp_path, changes="hold")
    assert result.output == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old.txt"]
    assert result.exec.changes.added == 2


def prints(tool_input: In, ctx: Context[Any]) -> int:
    sys.stdout.write("to stdout")
    sys.stderr.write("to stderr")
    os.write(1, b"\x1e" + b"0" * 32 + b"R0004null")
    return 5


async def test_what_the_work_prints_is_output_and_no_answer(sandbox: DockerSandbox) -> None:
    result = await call(sandbox, prints)
    assert result.output == 5
    assert result.exec.stdout == b"\x1e" + b"0" * 32 + b"R0004null" + b"to stdout"
    assert result.exec.stderr == b"to stderr"


# ---- exceptions


class OwnError(Exception):
    pass


def raises(tool_input: In, ctx: Context[Any]) -> None:
    raise OwnError("it went wrong")


def exits(tool_input: In, ctx: Context[Any]) -> None:
    raise SystemExit(3)


class Unshowable(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


def raises_unshowable(tool_input: In, ctx: Context[Any]) -> None:
    raise Unshowable


async def test_an_exception_comes_back_as_data_with_its_traceback(sandbox: DockerSandbox) -> None:
    with pytest.raises(ToolFailed, match="OwnError: it went wrong") as caught:
        await call(sandbox, raises)
    cause = caught.value.__cause__
    assert isinstance(cause, RemoteError)
    assert cause.type_name == "OwnError"
    assert "in raises" in cause.traceback_text
    assert "runner.py" not in cause.traceback_text


@pytest.mark.parametrize(("work", "name"), [(exits, "SystemExit"), (raises_unshowable, "Unshow")])
async def test_any_exception_is_data(sandbox: DockerSandbox, work: Any, name: str) -> None:
    with pytest.raises(ToolFailed, match=name):
        await call(sandbox, work)


# ---- work that breaks its runner


def forks(tool_input: In, ctx: Context[Any]) -> str:
    if os.fork() == 0:
        return "child"
    return "parent"


def closes_descriptors(tool_input: In, ctx: Context[Any]) -> str:
    os.closerange(0, 100)
    return "still here"


def writes_garbage(tool_input: In, ctx: Context[Any]) -> str:
    def noise() -> None:
        while True:
            os.write(1, os.urandom(5000))

    for _ in range(3):
        threading.Thread(target=noise, daemon=True).start()
    return "x" * 200_000


def leaves_a_thread(tool_input: In, ctx: Context[Any]) -> str:
    threading.Thread(target=lambda: time.sleep(1000)).start()
    return "done"


@pytest.mark.parametrize(
    ("work", "output"),
    [
        (forks, "parent"),
        (closes_descriptors, "still here"),
        (writes_garbage, "x" * 200_000),
        (leaves_a_thread, "done"),
    ],
)
async def test_work_that_misbehaves_still_gives_its_output(
    sandbox: DockerSandbox, work: Any, output: str
) -> None:
    # What the noise comes to before the work ends is for the scheduler to say.
    limits = {"output_total_bytes": "8g"}
    assert (await call(sandbox, work, limits=limits)).output == output


def quits(tool_input: In, ctx: Context[Any]) -> None:
    os._exit(0)


def closes_everything(tool_input: In, ctx: Context[Any]) -> str:
    os.closerange(0, 65_536)
    return "lost"


def kills_itself(tool_input: In, ctx: Context[Any]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def gigabyte(tool_input: In, ctx: Context[Any]) -> str:
    return "x" * (1 << 30)


def megabytes(tool_input: In, ctx: Context[Any]) -> str:
    return "x" * (40 << 20)


def not_a_number(tool_input: In, ctx: Context[Any]) -> float:
    return math.nan


def cycle(tool_input: In, ctx: Context[Any]) -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


def no_json(tool_input: In, ctx: Context[Any]) -> Any:
    return object()


class Hostile:
    def __reduce__(self) -> Any:
        return (os.system, ("touch /tmp/unpickled-on-the-host",))

    def __json__(self) -> str:
        return "pwned"


def hostile(tool_input: In, ctx: Context[Any]) -> Any:
    return Hostile()


def many(tool_input: In, ctx: Context[Any]) -> Any:
    return [[] for _ in range(3_000_000)]


def deep(tool_input: In, ctx: Context[Any]) -> Any:
    value: Any = 1
    for _ in range(230):
        value = [value]
    return value


@pytest.mark.parametrize(
    "work",
    [
        *(quits, closes_everything, kills_itself, gigabyte, megabytes, not_a_number, cycle),
        *(no_json, hostile, many, deep),
    ],
)
async def test_work_without_a_usable_output_is_a_typed_error(
    sandbox: DockerSandbox, work: Any
) -> None:
    with pytest.raises(ToolFailed):
        await call(sandbox, work, limits={"memory_bytes": "1g"})
    assert not Path("/tmp/unpickled-on-the-host").exists()


def wrong_model(tool_input: In, ctx: Context[Any]) -> Any:
    return {"text": 5, "numbers": ["x"]}


async def test_an_output_is_validated_against_the_stated_model(sandbox: DockerSandbox) -> None:
    with pytest.raises(ToolFailed, match="does not fit its model in 2 places"):
        await call(sandbox, wrong_model, output_schema=Out)


# ---- limits, cancellation, what is missing


def spins(tool_input: In, ctx: Context[Any]) -> None:
    while True:
        pass


def hoards(tool_input: In, ctx: Context[Any]) -> int:
    return len(bytearray(1 << 30))


def fills_a_file(tool_input: In, ctx: Context[Any]) -> int:
    with open("/tmp/big", "wb") as file:
        return file.write(b"x" * (2 << 20))


async def test_limits_hold_for_moved_calls(sandbox: DockerSandbox) -> None:
    with pytest.raises(ToolFailed, match="longer"):
        await call(sandbox, spins, timeout=1.0)
    with pytest.raises(ToolFailed, match=r"oom|MemoryError|signal"):
        await call(sandbox, hoards, limits={"memory_bytes": "128m"})
    with pytest.raises(ToolFailed, match=r"File too large|signal 25|disk_limit"):
        await call(sandbox, fills_a_file, limits={"file_bytes": "1m"})


async def test_a_cancelled_call_is_gone_within_its_second(sandbox: DockerSandbox) -> None:
    with anyio.move_on_after(1.5) as scope:
        await call(sandbox, spins)
    assert scope.cancelled_caught
    await until(lambda: not any(item.state == "running" for item in sandbox.status().calls))


def needs_pytest(tool_input: In, ctx: Context[Any]) -> str:
    return pytest.__version__


async def test_a_package_that_the_image_lacks_is_named(sandbox: DockerSandbox) -> None:
    with pytest.raises(NotMovable, match="pytest"):
        await call(sandbox, needs_pytest)


async def test_another_python_in_the_image_is_named(
    sandbox: DockerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = tool(where)
    async with Toolbox([moved], sandbox=sandbox) as box:
        monkeypatch.setattr(sys, "version_info", (3, 99, 0, "final", 0))
        with pytest.raises(NotMovable, match=r"Python 3\.99"):
            await box.call(moved, {})


async def test_an_image_without_a_runner_is_named(sandbox: DockerSandbox, base_image: str) -> None:
    moved = tool(where)
    async with Toolbox([moved], sandbox=sandbox, python_image=base_image) as box:
        with pytest.raises(NotMovable, match="runner"):
            await box.call(moved, {})


def lists_tmp(tool_input: In, ctx: Context[Any]) -> list[str]:
    Path("/tmp/mine").touch()
    return sorted(os.listdir("/tmp"))


@pytest.mark.timeout(600)
async def test_runners_that_waited_serve_one_call_each_with_limits_of_that_call(
    sandbox: DockerSandbox,
) -> None:
    moved, big = (
        tool(lists_tmp),
        build_tool(
            name="Big",
            description="x",
            input_schema=In,
            call=fills_a_file,
            needs_sandbox=True,
            requires_confirmation=False,
            carry=(__name__,),
        ),
    )
    seen: set[str] = set()
    async with Toolbox([moved, big], sandbox=sandbox, limits=Limits.of(file_bytes="1m")) as box:
        for _ in range(6):
            result = await box.call(moved, {})
            assert result.output == ["mine"]
            seen.add(result.call_id)
            await until(lambda: any(shelf.ready for shelf in sandbox.status().shelves))
        assert len(seen) == 6
        with pytest.raises(ToolFailed):
            await box.call(big, {})
        # What the runner did before the call is not the call's: its imports alone take more.
        with anyio.fail_after(300):
            while True:
                warm = (await box.call(moved, {})).exec
                if warm is not None and warm.usage.cpu_s is not None and warm.usage.cpu_s < 0.1:
                    break
                await anyio.sleep(0.5)
