"""The Toolbox: one door, trust by object, and never from container to host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.runtime.recording_sandbox import RecordingSandbox

from sandboxed_tools.builtin import Bash, Glob
from sandboxed_tools.errors import (
    ConfigurationError,
    EngineNotFound,
    InvalidInput,
    InvalidWorkspace,
    NotAuthorized,
    NotMovable,
    PermissionDenied,
    ToolFailed,
    ToolNotFound,
)
from sandboxed_tools.policy import ConfirmationRequest, Policy
from sandboxed_tools.runtime import SyncToolbox, Toolbox
from sandboxed_tools.tool import AnyTool, Command, Limits, ToolInput, build_tool


class TextInput(ToolInput):
    text: str = ""


def python_tool(name: str = "Py", **stated: Any) -> AnyTool:
    options: dict[str, Any] = {"call": lambda tool_input, ctx: tool_input.text.upper(), **stated}
    return build_tool(name=name, description="x", input_schema=TextInput, **options)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    return folder


async def test_a_call_by_name_alias_and_object_reaches_the_same_tool() -> None:
    upper = python_tool(aliases=("Up",), is_read_only=True)
    async with Toolbox([upper], trusted=(upper,)) as box:
        for wanted in ("Py", "Up", upper):
            result = await box.call(wanted, {"text": "a"})
            assert result.output == "A"
            assert result.placement.where == "host"


async def test_an_unknown_a_disabled_and_a_foreign_tool_do_not_exist() -> None:
    disabled = python_tool("Off", is_enabled=lambda: False)
    async with Toolbox([python_tool(), disabled]) as box:
        assert [tool.name for tool in box.tools] == ["Py"]
        for wanted in ("Nope", "Off", disabled, python_tool()):
            with pytest.raises(ToolNotFound):
                await box.call(wanted, {})
        with pytest.raises(ToolNotFound, match="Did you mean Py"):
            await box.call("Pyy", {})


@pytest.mark.parametrize(
    ("tools", "trusted"),
    [
        ((python_tool("A"), python_tool("A")), ()),
        ((python_tool("A"), python_tool("B", aliases=("A",))), ()),
        ((python_tool("A"),), (python_tool("A"),)),
    ],
    ids=["same name", "alias clash", "trusted is not among the tools"],
)
async def test_tools_that_cannot_be_told_apart_are_refused(
    tools: tuple[AnyTool, ...], trusted: tuple[AnyTool, ...]
) -> None:
    with pytest.raises(ConfigurationError):
        async with Toolbox(tools, trusted=trusted):
            pass


async def test_trust_goes_by_object_so_a_tool_that_calls_itself_glob_has_none() -> None:
    impostor = python_tool("Glob", is_read_only=True)
    async with Toolbox([impostor]) as box:
        with pytest.raises(NotMovable, match="trusted"):
            await box.call("Glob", {})


async def test_a_python_tool_that_belongs_in_a_container_is_refused_and_never_runs(
    workspace: Path,
) -> None:
    ran: list[str] = []
    tool = python_tool(
        call=lambda tool_input, ctx: ran.append("ran"), needs_sandbox=True, is_read_only=True
    )
    async with Toolbox([tool, Glob], trusted=(tool,), workspace=workspace) as box:
        with pytest.raises(NotMovable):
            await box.call(tool, {})
    async with Toolbox([Glob], policy=Policy(sandbox="always"), workspace=workspace) as box:
        with pytest.raises(NotMovable):
            await box.call("Glob", {"pattern": "*"})
    assert not ran


async def test_no_engine_means_an_error_and_nothing_on_the_host(workspace: Path) -> None:
    sandbox = RecordingSandbox(fault=EngineNotFound("no engine answers"))
    async with Toolbox([Bash], sandbox=sandbox, workspace=workspace) as box:
        with pytest.raises(EngineNotFound):
            await box.call("Bash", {"command": "touch escaped"})
    assert len(sandbox.runs) == 1
    assert sorted(path.name for path in workspace.iterdir()) == ["a.txt"]


async def test_a_command_that_is_not_read_only_goes_to_the_sandbox_with_its_limits(
    workspace: Path,
) -> None:
    sandbox = RecordingSandbox()
    policy = Policy(ceiling=Limits(wall_s=50))
    async with Toolbox([Bash], sandbox=sandbox, workspace=workspace, policy=policy) as box:
        result = await box.call(Bash, {"command": "rm a.txt", "timeout": 7.0})
        await box.call(Bash, {"command": "rm a.txt", "timeout": 700.0})
    assert result.placement.where == "container"
    assert result.output.stdout == b"recorded\n"
    (spec, command), (capped, _) = sandbox.runs
    assert command.argv[-1] == "rm a.txt"
    assert spec.limits.wall_s == 7
    assert capped.limits.wall_s == 50
    assert spec.workspace is not None
    assert spec.workspace.source == workspace.resolve()
    assert spec.workspace.access == "copy_on_write"
    assert spec.network == "none"
    assert sandbox.closed == 0, "a sandbox that was handed in is not the toolbox's to close"


async def test_a_long_script_travels_as_a_descriptor_and_an_empty_one_is_refused() -> None:
    sandbox = RecordingSandbox()
    async with Toolbox([Bash], sandbox=sandbox) as box:
        await box.call("Bash", {"command": "rm x # " + "x" * 200_000})
        for wrong in ("", "  \n", "a\0b"):
            with pytest.raises(InvalidInput):
                await box.call("Bash", {"command": wrong})
        for timeout in (0, -1, 1e9, "abc", "5", True):
            with pytest.raises(InvalidInput, match="timeout"):
                await box.call("Bash", {"command": "ls", "timeout": timeout})
    ((_, command),) = sandbox.runs
    assert command.script is not None
    assert len(command.script) > 200_000
    assert max(map(len, command.argv)) < 1000


async def test_what_a_tool_raises_is_an_error_that_a_model_can_act_on() -> None:
    def broken(tool_input: TextInput, ctx: object) -> str:
        raise ValueError("the moon is full")

    seen: list[BaseException] = []
    tool = python_tool(call=broken, is_read_only=True, on_error=lambda _, error: seen.append(error))
    async with Toolbox([tool], trusted=(tool,)) as box:
        with pytest.raises(ToolFailed, match="the moon is full") as caught:
            await box.call(tool, {})
    assert isinstance(caught.value.__cause__, ValueError)
    assert len(seen) == 1


async def test_a_hook_that_raises_stops_nothing() -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("hook")

    tool = python_tool(is_read_only=True, on_start=broken, on_success=broken)
    async with Toolbox([tool], trusted=(tool,)) as box:
        assert (await box.call(tool, {"text": "a"})).output == "A"


async def test_an_output_of_another_type_than_promised_is_refused() -> None:
    tool = python_tool(call=lambda tool_input, ctx: "many", output_schema=int, is_read_only=True)
    async with Toolbox([tool], trusted=(tool,)) as box:
        with pytest.raises(ToolFailed):
            await box.call(tool, {})


async def test_a_tool_that_writes_on_the_host_is_asked_for_and_denied_without_anybody() -> None:
    ran: list[str] = []
    tool = python_tool(call=lambda tool_input, ctx: ran.append("ran"))
    async with Toolbox([tool], trusted=(tool,)) as box:
        with pytest.raises(PermissionDenied, match="nobody to ask"):
            await box.call(tool, {})
    assert not ran

    async def yes(request: ConfirmationRequest) -> bool:
        assert request.placement.where == "host"
        return True

    async with Toolbox([tool], trusted=(tool,), confirmer=yes) as box:
        assert (await box.call(tool, {})).decision.layer == "person"
    assert ran == ["ran"]


async def test_a_network_or_applied_changes_are_not_contained_so_they_are_asked_for() -> None:
    sandbox = RecordingSandbox()
    for options in ({"network": "bridge"}, {"changes": "apply"}):
        async with Toolbox([Bash], sandbox=sandbox, **options) as box:  # type: ignore[arg-type]
            with pytest.raises(PermissionDenied):
                await box.call("Bash", {"command": "rm x"})
    assert not sandbox.runs


async def test_there_is_no_second_door() -> None:
    tool = python_tool(is_read_only=True)
    contexts: list[Any] = []

    def keep(tool_input: TextInput, ctx: Any) -> str:
        contexts.append(ctx)
        return "kept"

    keeper = python_tool("Keep", call=keep, is_read_only=True)
    async with Toolbox([tool, keeper], trusted=(tool, keeper)) as box:
        await box.call(keeper, {})
        used = contexts[0]
        for target in (tool, keeper):
            with pytest.raises(NotAuthorized):
                await target.call(TextInput(), used)
        with pytest.raises(NotAuthorized):
            await used.execute(Command(("rm", "-rf", "/")))


async def test_explaining_runs_nothing_and_asks_nobody(workspace: Path) -> None:
    async def never(_: ConfirmationRequest) -> bool:
        raise AssertionError("asked")

    sandbox = RecordingSandbox()
    async with Toolbox(
        [Bash], sandbox=sandbox, workspace=workspace, confirmer=never, policy=Policy(mode="ask")
    ) as box:
        explained = box.explain("Bash", {"command": "rm a.txt"})
    assert explained.placement.where == "container"
    assert explained.decision.behavior == "ask"
    assert not sandbox.runs
    assert (workspace / "a.txt").exists()


async def test_a_workspace_that_may_not_be_used_is_refused_on_entering(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    for wrong in (tmp_path / "missing", file, Path("/"), Path.home(), Path("/etc")):
        with pytest.raises(InvalidWorkspace):
            async with Toolbox([Bash], workspace=wrong):
                pass


async def test_a_toolbox_is_used_inside_its_block_and_entered_once() -> None:
    box = Toolbox([python_tool()])
    with pytest.raises(ConfigurationError):
        await box.call("Py", {})
    async with box:
        with pytest.raises(ConfigurationError):
            async with box:
                pass
    with pytest.raises(ConfigurationError):
        await box.call("Py", {})


async def test_setup_and_teardown_are_called_once_whatever_happens_in_between() -> None:
    events: list[str] = []

    async def setup() -> None:
        events.append("setup")

    async def teardown() -> None:
        events.append("teardown")

    tool = python_tool(setup=setup, teardown=teardown)
    with pytest.raises(RuntimeError):
        async with Toolbox([tool]):
            raise RuntimeError
    assert events == ["setup", "teardown"]


async def test_a_tool_that_cannot_be_set_up_keeps_the_toolbox_shut_and_all_are_torn_down() -> None:
    events: list[str] = []

    async def note(event: str, fails: bool = False) -> None:
        events.append(event)
        if fails:
            raise RuntimeError(event)

    tools = [
        python_tool("A", setup=lambda: note("+A"), teardown=lambda: note("-A")),
        python_tool("B", setup=lambda: note("+B", True), teardown=lambda: note("-B", True)),
    ]
    with pytest.raises(ToolFailed, match="B could not be set up"):
        async with Toolbox(tools):
            pass
    assert events == ["+A", "+B", "-B", "-A"]


async def test_a_tool_that_needs_a_person_is_refused_where_there_is_none() -> None:
    tool = python_tool(is_read_only=True, requires_user_interaction=True)
    async with Toolbox([tool], trusted=(tool,)) as box:
        with pytest.raises(PermissionDenied, match="person at hand"):
            await box.call(tool, {})

    async def yes(_: ConfirmationRequest) -> bool:
        return True

    async with Toolbox([tool], trusted=(tool,), confirmer=yes) as box:
        assert (await box.call(tool, {"text": "a"})).output == "A"


async def test_progress_reaches_the_tools_own_hook() -> None:
    seen: list[int] = []
    tool = python_tool(
        call=lambda tool_input, ctx: ctx.progress(7), is_read_only=True, on_progress=seen.append
    )
    async with Toolbox([tool], trusted=(tool,)) as box:
        await box.call(tool, {})
    assert seen == [7]


async def test_a_cancelled_call_tells_its_tool() -> None:
    events: list[str] = []
    started = anyio.Event()

    async def forever(tool_input: TextInput, ctx: object) -> None:
        started.set()
        await anyio.sleep_forever()

    tool = python_tool(
        call=forever, is_read_only=True, on_cancel=lambda _: events.append("cancelled")
    )
    async with Toolbox([tool], trusted=(tool,)) as box:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(box.call, tool, {})
            await started.wait()
            tasks.cancel_scope.cancel()
    assert events == ["cancelled"]


async def test_progress_reaches_its_listener_and_a_broken_listener_stops_nothing() -> None:
    def work(tool_input: TextInput, ctx: Any) -> str:
        ctx.progress(1)
        ctx.progress(2)
        return "done"

    def broken(_: object) -> None:
        raise ValueError("a listener's own fault")

    seen: list[int] = []
    tool = python_tool(call=work, is_read_only=True)
    async with Toolbox([tool], trusted=(tool,)) as box:
        await box.call(tool, {}, on_progress=seen.append)
        assert (await box.call(tool, {}, on_progress=broken)).output == "done"
    assert seen == [1, 2]


def test_the_synchronous_form_does_the_same_from_several_threads(workspace: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    tool = python_tool(is_read_only=True)
    with SyncToolbox([tool], trusted=(tool,), workspace=workspace) as box:
        with ThreadPoolExecutor(8) as threads:
            results = threads.map(lambda n: box.call(tool, {"text": f"n{n}"}).output, range(50))
            assert list(results) == [f"N{n}" for n in range(50)]
        assert box.explain(tool, {}).placement.where == "host"
    with pytest.raises(ConfigurationError):
        box.call(tool, {})


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_toolbox_works_on_both_event_loops(backend: str) -> None:
    tool = python_tool(is_read_only=True)

    async def main() -> str:
        async with Toolbox([tool], trusted=(tool,)) as box:
            return str((await box.call(tool, {"text": "a"})).output)

    assert anyio.run(main, backend=backend) == "A"
