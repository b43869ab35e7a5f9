"""The executor against a sequential model: whatever the timing, the effects are those of one call
after the other."""

from __future__ import annotations

import threading
import time
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sandboxed_tools.errors import CallCancelled, PermissionDenied
from sandboxed_tools.policy import Policy
from sandboxed_tools.runtime import Finished, Refused, SyncToolbox
from sandboxed_tools.runtime.events import LastEvent
from sandboxed_tools.tool import AnyTool, ToolInput, build_tool

SIDE_BY_SIDE = 3


class CallInput(ToolInput):
    id: str
    fails: bool = False


class World:
    """What calls read and change: a list of the ids of the calls that changed it."""

    def __init__(self) -> None:
        self.changed: list[str] = []
        self.running: dict[str, str] = {}
        self.gates: dict[str, anyio.Event] = {}

    async def _held(self, tool: str, call_id: str) -> None:
        self.running[call_id] = tool
        try:
            await self.gates.setdefault(call_id, anyio.Event()).wait()
        finally:
            del self.running[call_id]

    async def look(self, tool_input: CallInput, ctx: Any) -> list[str]:
        seen = list(self.changed)
        await self._held("Look", tool_input.id)
        assert self.changed == seen, "something changed beside a call that only looks"
        if tool_input.fails:
            raise ValueError(tool_input.id)
        return seen

    async def change(self, tool_input: CallInput, ctx: Any) -> list[str]:
        assert not self.running, "a call that changes something runs alone"
        await self._held("Change", tool_input.id)
        self.changed.append(tool_input.id)
        if tool_input.fails:
            raise ValueError(tool_input.id)
        return list(self.changed)

    def tools(self) -> tuple[AnyTool, ...]:
        def tool(name: str, call: Any, **stated: Any) -> AnyTool:
            return build_tool(
                name=name,
                description="x",
                input_schema=CallInput,
                call=call,
                is_read_only=True,
                **stated,
            )

        return (
            tool("Look", self.look, is_concurrency_safe=True, interrupt_behavior="cancel"),
            tool("Change", self.change),
            # A stand-in under Bash's name: it changes something, and refusals of it halt.
            tool(
                "Bash",
                self.change,
                permission_pattern=lambda tool_input: "rm x" if tool_input.fails else "ls",
            ),
        )


class ExecutorMachine(RuleBasedStateMachine):
    """Submits, lets running calls end in any order, interrupts, discards; then compares."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        tools = self.world.tools()
        policy = Policy.model_validate({"deny": ["Bash(rm:*)"], "audit": "off"})
        self.box = SyncToolbox(tools, trusted=tools, policy=policy)
        self.box.__enter__()
        self.executor = self.box.executor(side_by_side=SIDE_BY_SIDE)
        self.executor.__enter__()
        self.submitted: list[tuple[str, str, bool]] = []
        self.number = 0
        self.interrupted: set[str] = set()

    def _in_loop(self, function: Any, *arguments: Any) -> Any:
        portal = self.box._portal
        assert portal is not None
        return portal.call(function, *arguments)

    def _settle(self) -> None:
        async def settle() -> None:
            with anyio.fail_after(60):
                await anyio.wait_all_tasks_blocked()

        self._in_loop(settle)

    def _release(self, call_id: str) -> None:
        self._in_loop(lambda: self.world.gates.setdefault(call_id, anyio.Event()).set())
        self._settle()

    @rule(tool=st.sampled_from(["Look", "Look", "Change", "Bash"]), fails=st.booleans())
    def submit(self, tool: str, fails: bool) -> None:
        call_id = f"c{self.number}"
        self.number += 1
        self.submitted.append((call_id, tool, fails))
        self.executor.submit(call_id, tool, {"id": call_id, "fails": fails})
        self._settle()

    @precondition(lambda self: self.world.running)
    @rule(data=st.data())
    def let_one_end(self, data: st.DataObject) -> None:
        self._release(data.draw(st.sampled_from(sorted(self.world.running))))

    @rule()
    def interrupt(self) -> None:
        ended = {call_id for call_id, *_ in self.submitted} - set(self.world.running)
        self.executor.interrupt()
        self._settle()
        self.interrupted |= {call_id for call_id, *_ in self.submitted} - ended
        self.interrupted |= {call_id for call_id in ended if call_id not in self.world.gates}

    @rule()
    def take_an_answer(self) -> None:
        while self.world.running:
            self._release(min(self.world.running))
        self._compare(self.executor.results())

    @rule()
    def discard(self) -> None:
        self.executor.discard()
        self._settle()
        while self.world.running:
            self._release(min(self.world.running))
        assert self.executor.results() == []
        self._start_afresh()

    @invariant()
    def running_calls_may_run_together(self) -> None:
        running = self.world.running
        assert len(running) <= SIDE_BY_SIDE
        if set(running.values()) - {"Look"}:
            assert len(running) == 1

    def _compare(self, results: list[LastEvent]) -> None:
        """Against a run one after the other, in which interrupted calls may have been dropped."""
        assert [result.id for result in results] == [call_id for call_id, *_ in self.submitted]
        changed: list[str] = []
        halted = False
        for (call_id, tool, fails), result in zip(self.submitted, results, strict=True):
            was_dropped = isinstance(result.error, CallCancelled)
            if was_dropped:
                assert halted or call_id in self.interrupted, f"{call_id} was dropped for nothing"
                continue
            if tool == "Bash" and fails:
                assert isinstance(result, Refused)
                assert isinstance(result.error, PermissionDenied)
                halted = True
                continue
            assert isinstance(result, Finished)
            # Calls that had started beside a refused one go on; they can only look.
            assert not halted or tool == "Look"
            if tool != "Look":
                changed.append(call_id)
            if fails:
                assert result.outcome == "failed"
            else:
                assert result.result is not None
                assert result.result.output == changed, f"{call_id} saw another order"
        assert self.world.changed == changed
        self._start_afresh()

    def _start_afresh(self) -> None:
        self.submitted.clear()
        self.interrupted.clear()
        self.world.changed.clear()

    def teardown(self) -> None:
        while self.world.running:
            self._release(min(self.world.running))
        self.executor.__exit__(None, None, None)
        self.box.__exit__(None, None, None)
        assert not self.world.running


@pytest.mark.timeout(600)
def test_random_mixes_have_the_effects_of_one_call_after_the_other() -> None:
    before = threading.active_count()
    run_state_machine_as_test(
        ExecutorMachine,
        settings=settings(
            max_examples=40,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    # Threads of a loop that has ended go when they are scheduled next.
    deadline = time.monotonic() + 60
    while threading.active_count() > before + 1:
        assert time.monotonic() < deadline, threading.enumerate()
        time.sleep(0.05)
