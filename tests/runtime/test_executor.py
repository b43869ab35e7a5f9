"""The executor: order, side by side, failures, interruptions, and nothing left running."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from tests.runtime.recording_sandbox import RecordingSandbox

from sandboxed_tools.builtin import Bash
from sandboxed_tools.errors import (
    CallCancelled,
    ConfigurationError,
    EngineFault,
    ImageRefused,
    InvalidInput,
    NotMovable,
    PermissionDenied,
    SandboxUnavailable,
    ToolFailed,
    ToolNotFound,
)
from sandboxed_tools.policy import Answer, ConfirmationRequest, Policy
from sandboxed_tools.runtime import (
    Event,
    Executor,
    Finished,
    Output,
    Progress,
    Refused,
    Started,
    SyncToolbox,
    Toolbox,
)
from sandboxed_tools.sandbox.contract import OutputSink, SandboxSpec
from sandboxed_tools.tool import AnyTool, Command, ExecResult, ToolInput, build_tool

DEADLINE_S = 60


class TextInput(ToolInput):
    text: str = ""


class Stage:
    """Tools whose calls wait until the test lets them go, and a record of what ran when."""

    def __init__(self) -> None:
        self.running: set[str] = set()
        self.log: list[str] = []
        self.most = 0
        self.gates: dict[str, anyio.Event] = {}

    def gate(self, text: str) -> anyio.Event:
        return self.gates.setdefault(text, anyio.Event())

    async def work(self, tool_input: TextInput, ctx: Any) -> str:
        text = tool_input.text
        self.running.add(text)
        self.most = max(self.most, len(self.running))
        self.log.append(f"+{text}")
        try:
            if text.endswith("?"):
                await self.gate(text).wait()
            if text.startswith("fail"):
                raise ValueError(text)
            ctx.progress(text)
        finally:
            self.running.discard(text)
            self.log.append(f"-{text}")
        return text.upper()

    def tool(self, name: str, **stated: Any) -> AnyTool:
        return build_tool(
            name=name,
            description="x",
            input_schema=TextInput,
            **{"call": self.work, "is_read_only": True, **stated},
        )

    def tools(self) -> list[AnyTool]:
        return [
            self.tool("Safe", is_concurrency_safe=True, interrupt_behavior="cancel"),
            self.tool("Alone", interrupt_behavior="cancel"),
            self.tool("Block"),
        ]


def box_of(stage: Stage, *more: AnyTool, **options: Any) -> Toolbox:
    tools = [*stage.tools(), *more]
    return Toolbox(tools, trusted=tuple(stage_tool for stage_tool in tools), **options)


def last(events: list[Event]) -> list[Finished | Refused]:
    return [event for event in events if isinstance(event, Finished | Refused)]


async def settle() -> None:
    with anyio.fail_after(DEADLINE_S):
        await anyio.wait_all_tasks_blocked()


class FaultySandbox(RecordingSandbox):
    """Ends each run as the test lists it: a result's status, or a fault."""

    def __init__(self, *endings: Any) -> None:
        super().__init__()
        self.endings = list(endings)

    async def run(
        self, spec: SandboxSpec, command: Command, on_output: OutputSink | None = None
    ) -> ExecResult:
        self.runs.append((spec, command))
        ending: Any = self.endings.pop(0) if self.endings else "exited"
        if isinstance(ending, BaseException):
            raise ending
        if on_output is not None:
            on_output("stdout", b"piece")
        return ExecResult(ending, exit_code=3 if ending == "exited" else None)


async def test_events_tell_the_whole_story_of_a_call() -> None:
    async with box_of(Stage()) as box, box.executor() as executor:
        executor.submit("1", "Safe", {"text": "a"})
        events = [event async for event in executor]
    assert [type(event) for event in events] == [Started, Progress, Finished]
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.id == "1"
    assert finished.outcome == "ok"
    assert finished.result is not None
    assert finished.result.output == "A"


async def test_safe_calls_run_side_by_side_within_the_bound_and_report_in_order() -> None:
    stage = Stage()
    names = [f"{number}?" for number in range(6)]
    async with box_of(stage) as box, box.executor(side_by_side=4) as executor:
        for name in names:
            executor.submit(name, "Safe", {"text": name})
        await settle()
        assert stage.running == set(names[:4])
        for name in reversed(names):
            stage.gate(name).set()
        events = [event async for event in executor]
    assert [event.id for event in last(events)] == names
    assert stage.most == 4


async def test_an_unsafe_call_waits_for_all_before_it_and_holds_up_all_behind_it() -> None:
    stage = Stage()
    async with box_of(stage) as box, box.executor() as executor:
        for text, tool in (("a?", "Safe"), ("b?", "Alone"), ("c?", "Safe"), ("d?", "Safe")):
            executor.submit(text, tool, {"text": text})
        await settle()
        assert stage.running == {"a?"}
        stage.gate("a?").set()
        await settle()
        assert stage.running == {"b?"}
        stage.gate("b?").set()
        await settle()
        assert stage.running == {"c?", "d?"}
        for text in "cd":
            stage.gate(f"{text}?").set()
        assert len(await executor.results()) == 4


async def test_a_thousand_calls_keep_their_order() -> None:
    stage = Stage()
    async with box_of(stage) as box, box.executor(side_by_side=64) as executor:
        for number in range(1000):
            executor.submit(str(number), "Safe", {"text": str(number)})
        results = await executor.results()
    assert [result.id for result in results] == [str(number) for number in range(1000)]
    assert all(isinstance(result, Finished) and result.outcome == "ok" for result in results)


async def test_what_goes_wrong_becomes_a_result_and_stops_no_other_call() -> None:
    stage = Stage()
    exits = stage.tool("Exits", call=lambda _, ctx: (_ for _ in ()).throw(SystemExit(3)))
    off = stage.tool("Off", is_enabled=lambda: False)
    mute = stage.tool("Mute", to_model_text=lambda _: 1 / 0)
    foreign = stage.tool("Foreign", needs_sandbox=True)
    calls: list[tuple[str, Any, type[Exception] | None]] = [
        ("Nope", {}, ToolNotFound),
        ("Off", {}, ToolNotFound),
        ("Safe", {"nope": 1}, InvalidInput),
        ("Safe", [1, 2], InvalidInput),
        ("Safe", None, InvalidInput),
        ("Safe", {"text": "fail"}, ToolFailed),
        ("Alone", {"text": "fail"}, ToolFailed),
        ("Exits", {}, ToolFailed),
        ("Mute", {}, ToolFailed),
        ("Foreign", {}, NotMovable),
        ("Safe", {"text": "fine"}, None),
    ]
    async with box_of(stage, exits, off, mute, foreign) as box, box.executor() as executor:
        for number, (tool, raw, _) in enumerate(calls):
            executor.submit(str(number), tool, raw)
        results = await executor.results()
    assert [type(result.error) if result.error else None for result in results] == [
        error for *_, error in calls
    ]
    assert all(result.text for result in results)
    assert "fail" in results[5].text


async def test_a_person_sees_what_the_author_renders_and_a_broken_rendering_is_survived() -> None:
    def rendered(name: str, **stated: Any) -> AnyTool:
        renderings: dict[str, Any] = {
            "render_progress": lambda value: f"at {value}",
            "render_result": lambda output: f"got {output}",
            "render_error": lambda error: f"sorry: {error}",
            "render_rejected": lambda tool_input: "not now",
        }
        if name == "Broken":
            renderings = dict.fromkeys(
                ("render_progress", "render_error", "render_rejected"), lambda _: 1 / 0
            )
        return stage.tool(name, **renderings, **stated)

    stage = Stage()
    made, broken = rendered("Made"), rendered("Broken")
    policy = Policy(deny=["Refused", "Broken2"])  # type: ignore[arg-type]
    denied = rendered("Refused")
    async with box_of(stage, made, broken, denied, policy=policy) as box:
        async with box.executor() as executor:
            for number, (tool, text) in enumerate(
                [("Made", "a"), ("Made", "fail"), ("Refused", "a"), ("Broken", "fail")]
            ):
                executor.submit(str(number), tool, {"text": text})
            events = [event async for event in executor]
    shown = [event.shown for event in last(events)]
    assert shown[0] == "got A"
    assert shown[1].startswith("sorry: Made failed")
    assert shown[2].startswith("not now")
    assert shown[3].startswith("Broken failed")
    assert [event.text for event in events if isinstance(event, Progress)] == ["at a"]


async def test_the_same_id_twice_and_what_is_no_id_are_refused_at_once() -> None:
    async with box_of(Stage()) as box, box.executor() as executor:
        executor.submit("1", "Safe", {})
        for call_id, tool in (("1", "Safe"), (1, "Safe"), ("2", None)):
            with pytest.raises(InvalidInput):
                executor.submit(call_id, tool, {})  # type: ignore[arg-type]
        assert len(await executor.results()) == 1
    with pytest.raises(ConfigurationError):
        executor.submit("3", "Safe", {})
    with pytest.raises(ConfigurationError):
        box.executor(side_by_side=0)


@pytest.mark.parametrize(
    ("ending", "goes_on"),
    [
        ("exited", True),
        ("signalled", True),
        ("oom", True),
        ("output_limit", True),
        ("timeout", False),
        ("idle_timeout", False),
        (EngineFault("gone"), False),
        (ImageRefused("no"), False),
    ],
)
async def test_only_a_bash_call_that_did_not_go_through_cancels_later_ones(
    ending: Any, goes_on: bool
) -> None:
    stage = Stage()
    async with box_of(stage, Bash, sandbox=FaultySandbox(ending)) as box:
        async with box.executor() as executor:
            executor.submit("1", "Bash", {"command": "rm x"})
            executor.submit("2", "Safe", {"text": "a"})
            await settle()
            executor.submit("3", "Alone", {"text": "b"})
            first, *later = await executor.results()
            executor.submit("4", "Safe", {"text": "next answer"})
            (after,) = await executor.results()
    assert isinstance(first, Finished)
    assert isinstance(after, Finished), "the next answer starts afresh"
    for result in later:
        if goes_on:
            assert isinstance(result, Finished)
        else:
            assert isinstance(result, Refused)
            assert isinstance(result.error, CallCancelled)
    assert ("+a" in stage.log) == goes_on


@pytest.mark.parametrize("refusal", [{"command": ""}, {"command": "dd if=x of=y"}])
async def test_a_refused_bash_call_cancels_later_ones(refusal: dict[str, str]) -> None:
    stage = Stage()
    policy = Policy(deny=["Bash(dd:*)"])  # type: ignore[arg-type]
    async with box_of(stage, Bash, policy=policy, sandbox=FaultySandbox()) as box:
        async with box.executor() as executor:
            executor.submit("1", "Bash", refusal)
            executor.submit("2", "Alone", {"text": "a"})
            first, second = await executor.results()
    assert isinstance(first, Refused)
    assert isinstance(first.error, InvalidInput | PermissionDenied)
    assert isinstance(second.error, CallCancelled)
    assert not stage.log


async def test_what_had_started_beside_it_goes_on() -> None:
    stage = Stage()
    sandbox = FaultySandbox("timeout")
    bash = build_tool(
        name="Bash",
        description="x",
        input_schema=TextInput,
        command=lambda _: Command(("true",)),
        needs_sandbox=True,
        is_read_only=True,
        is_concurrency_safe=True,
    )
    async with box_of(stage, bash, sandbox=sandbox) as box, box.executor() as executor:
        executor.submit("1", "Safe", {"text": "a?"})
        executor.submit("2", "Bash", {})
        executor.submit("3", "Alone", {"text": "b"})
        await settle()
        stage.gate("a?").set()
        results = await executor.results()
    assert [type(result) for result in results] == [Finished, Finished, Refused]
    assert "+b" not in stage.log


async def test_an_interruption_cancels_cancel_tools_and_waits_for_block_tools() -> None:
    stage = Stage()
    async with box_of(stage) as box, box.executor() as executor:
        executor.submit("1", "Safe", {"text": "a?"})
        executor.submit("2", "Alone", {"text": "b?"})
        await settle()
        executor.interrupt()
        cancelled, dropped = await executor.results()
        assert isinstance(cancelled, Finished)
        assert cancelled.outcome == "cancelled"
        assert isinstance(dropped, Refused)
        executor.submit("3", "Block", {"text": "c?"})
        executor.submit("4", "Safe", {"text": "d"})
        await settle()
        executor.interrupt()
        await settle()
        assert stage.running == {"c?"}
        stage.gate("c?").set()
        blocked, dropped = await executor.results()
        assert isinstance(blocked, Finished)
        assert blocked.outcome == "ok"
        assert isinstance(dropped.error, CallCancelled)
        assert not dropped.error.has_started
    assert "+b?" not in stage.log
    assert "+d" not in stage.log


async def test_a_discarded_answer_leaves_no_event_and_its_ids_are_free_again() -> None:
    stage = Stage()
    async with box_of(stage) as box, box.executor() as executor:
        for number, (tool, text) in enumerate(
            [("Safe", "done"), ("Safe", "a?"), ("Alone", "b"), ("Safe", "c")]
        ):
            executor.submit(str(number), tool, {"text": text})
        await settle()
        executor.discard()
        assert await executor.results() == []
        executor.submit("0", "Safe", {"text": "anew"})
        (result,) = await executor.results()
        assert isinstance(result, Finished)
        assert result.result is not None
        assert result.result.output == "ANEW"
    assert not {"+b", "+c"} & set(stage.log)


async def test_a_discarded_block_tool_ends_unseen_and_later_calls_wait_for_it() -> None:
    stage = Stage()
    async with box_of(stage) as box, box.executor() as executor:
        executor.submit("1", "Block", {"text": "a?"})
        await settle()
        executor.discard()
        executor.submit("1", "Alone", {"text": "b"})
        await settle()
        assert "+b" not in stage.log
        stage.gate("a?").set()
        results = await executor.results()
    assert [result.text for result in results] == ["B"]
    assert stage.log.index("-a?") < stage.log.index("+b")


async def test_iterating_waits_for_what_is_still_being_streamed() -> None:
    stage = Stage()
    seen: list[str] = []

    async def read(executor: Executor) -> None:
        async for event in executor:
            if isinstance(event, Finished):
                seen.append(event.id)

    async with box_of(stage) as box, box.executor() as executor:
        async with anyio.create_task_group() as tasks:
            with executor.streaming():
                tasks.start_soon(read, executor)
                for number in range(3):
                    executor.submit(str(number), "Safe", {"text": "x"})
                    await settle()
                    assert len(seen) == number + 1
    assert seen == ["0", "1", "2"]


async def test_the_block_waits_for_everything_when_it_ends_normally() -> None:
    stage = Stage()
    async with box_of(stage) as box:
        async with box.executor() as executor:
            for number in range(20):
                executor.submit(str(number), "Alone", {"text": str(number)})
    assert len(stage.log) == 40


async def test_nothing_is_left_running_when_the_block_ends_by_an_exception() -> None:
    stage = Stage()

    class HostError(Exception):
        pass

    async def fail(executor: Executor) -> None:
        executor.submit("1", "Safe", {"text": "a?"})
        executor.submit("2", "Alone", {"text": "b"})
        await settle()
        raise HostError

    async with box_of(stage) as box:
        with pytest.raises(HostError):
            async with box.executor() as executor:
                await fail(executor)
    assert not stage.running
    assert "+b" not in stage.log


async def test_a_cancelled_block_waits_for_block_tools_for_its_grace_and_no_longer() -> None:
    stage = Stage()

    async def run(box: Toolbox, text: str, grace_s: float) -> None:
        async with box.executor(interrupt_grace_s=grace_s) as executor:
            executor.submit("1", "Block", {"text": text})
            await anyio.sleep_forever()

    async with box_of(stage) as box:
        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run, box, "a?", DEADLINE_S * 2)
                await settle()
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await settle()
                    assert stage.running == {"a?"}
                    stage.gate("a?").set()
        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run, box, "b?", 0.05)
                await settle()
                tasks.cancel_scope.cancel()
    assert not stage.running


async def test_idempotent_calls_are_tried_again_after_passing_faults_and_no_others() -> None:
    def tool(name: str, **stated: Any) -> AnyTool:
        return build_tool(
            name=name,
            description="x",
            input_schema=TextInput,
            command=lambda _: Command(("true",)),
            needs_sandbox=True,
            **stated,
        )

    tools = [
        tool("Once"),
        tool("Again", is_idempotent=True),
        tool("Thrice", is_idempotent=True, max_retries=2),
        tool("Never", is_idempotent=True, max_retries=0),
    ]
    fault = EngineFault("gone")
    for name, endings, runs, outcome in (
        ("Once", [fault], 1, "failed"),
        ("Again", [fault], 2, "ok"),
        ("Again", [fault, fault], 2, "failed"),
        ("Again", [ImageRefused("no")], 1, "failed"),
        ("Thrice", [fault, fault], 3, "ok"),
        ("Never", [fault], 1, "failed"),
        ("Again", ["timeout"], 1, "ok"),
    ):
        sandbox = FaultySandbox(*endings)
        async with Toolbox(tools, sandbox=sandbox) as box, box.executor() as executor:
            executor.submit("1", name, {})
            (result,) = await executor.results()
        assert isinstance(result, Finished)
        assert (len(sandbox.runs), result.outcome) == (runs, outcome), name
        if outcome == "failed":
            assert isinstance(result.error, SandboxUnavailable)


async def test_live_output_is_told_and_bounded_when_nobody_takes_it() -> None:
    done = anyio.Event()

    class Flood(RecordingSandbox):
        async def run(
            self, spec: SandboxSpec, command: Command, on_output: OutputSink | None = None
        ) -> ExecResult:
            assert on_output is not None
            for _ in range(300):
                await anyio.to_thread.run_sync(on_output, "stdout", b"x" * 65_536)
            done.set()
            return ExecResult("exited", exit_code=0)

    async with Toolbox([Bash], sandbox=Flood()) as box, box.executor() as executor:
        executor.submit("1", "Bash", {"command": "rm x"})
        with anyio.fail_after(DEADLINE_S):
            await done.wait()
        events = [event async for event in executor]
        executor.submit("2", "Bash", {"command": "rm x"})
        more = [event async for event in executor]
    kept = sum(len(event.data) for event in events if isinstance(event, Output))
    assert 0 < kept <= 8 * 1024 * 1024
    assert any(isinstance(event, Finished) for event in events)
    assert sum(len(event.data) for event in more if isinstance(event, Output)) > 0


async def test_questions_are_asked_one_at_a_time_and_always_answers_the_next() -> None:
    asking = 0
    asked: list[str] = []

    async def answer(request: ConfirmationRequest) -> Answer:
        nonlocal asking
        asking += 1
        assert asking == 1
        await anyio.lowlevel.checkpoint()
        asked.append(request.use)
        asking -= 1
        return "always"

    stage = Stage()
    policy = Policy(ask=())
    confirmed = stage.tool(
        "Confirmed",
        requires_confirmation=True,
        is_concurrency_safe=True,
        permission_pattern=lambda tool_input: tool_input.text,
    )
    async with box_of(stage, confirmed, policy=policy, confirmer=answer) as box:
        async with box.executor() as executor:
            for number in range(4):
                executor.submit(str(number), "Confirmed", {"text": f"same{number // 2}"})
            results = await executor.results()
    assert all(isinstance(result, Finished) and result.outcome == "ok" for result in results)
    assert len(asked) == 2


async def test_a_call_whose_question_is_open_has_not_started_and_is_cancelled() -> None:
    asked = anyio.Event()

    async def forever(_: ConfirmationRequest) -> bool:
        asked.set()
        await anyio.sleep_forever()
        return True

    stage = Stage()
    writer = stage.tool("Writer", is_read_only=False)
    async with box_of(stage, writer, confirmer=forever) as box, box.executor() as executor:
        executor.submit("1", "Writer", {"text": "a"})
        with anyio.fail_after(DEADLINE_S):
            await asked.wait()
        executor.interrupt()
        (result,) = await executor.results()
    assert isinstance(result, Refused)
    assert isinstance(result.error, CallCancelled)
    assert not stage.log


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    "scenario",
    [
        test_safe_calls_run_side_by_side_within_the_bound_and_report_in_order,
        test_an_interruption_cancels_cancel_tools_and_waits_for_block_tools,
        test_nothing_is_left_running_when_the_block_ends_by_an_exception,
        test_a_cancelled_block_waits_for_block_tools_for_its_grace_and_no_longer,
        test_live_output_is_told_and_bounded_when_nobody_takes_it,
    ],
)
def test_both_event_loops_agree(backend: str, scenario: Callable[[], Awaitable[None]]) -> None:
    anyio.run(scenario, backend=backend)


def interrupted(box: SyncToolbox) -> None:
    with box.executor() as executor:
        executor.submit("8", "Safe", {"text": "still?"})
        raise KeyboardInterrupt


def test_the_synchronous_form_does_the_same() -> None:
    stage = Stage()
    tools = stage.tools()
    with SyncToolbox(tools, trusted=tuple(tools)) as box:
        with box.executor() as executor:
            for number in range(5):
                executor.submit(str(number), "Safe", {"text": str(number)})
            ids = [event.id for event in executor if isinstance(event, Finished)]
            assert ids == [str(number) for number in range(5)]
            with executor.streaming():
                executor.submit("5", "Alone", {"text": "x"})
            assert [result.id for result in executor.results()] == ["5"]
            executor.submit("6", "Safe", {"text": "never?"})
            executor.interrupt()
            (result,) = executor.results()
            assert isinstance(result.error, CallCancelled)
            executor.submit("7", "Safe", {"text": "nope?"})
            executor.discard()
            assert executor.results() == []
        with pytest.raises(KeyboardInterrupt):
            interrupted(box)
    assert not stage.running
