"""Stopping a Toolbox: what runs ends with its result, and nothing further is begun."""

from __future__ import annotations

import threading

import anyio
import anyio.to_thread
import pytest
from tests.runtime.recording_sandbox import RecordingSandbox

from sandboxed_tools import ConfigurationError, SandboxUnavailable, Toolbox
from sandboxed_tools.runtime import CallResult
from sandboxed_tools.tool import ExecResult

SLEEP = {"command": "echo up; sleep 300; rm -f /tmp/x"}


async def test_a_sandbox_that_others_may_be_using_is_not_stopped() -> None:
    async with Toolbox(sandbox=RecordingSandbox()) as box:
        with pytest.raises(ConfigurationError):
            await box.stop()
        assert (await box.call("Bash", {"command": "touch x"})).exec is not None


async def test_before_the_first_contained_call_there_is_nothing_to_stop_and_none_follows() -> None:
    box = Toolbox()
    assert await box.stop() is False
    async with box:
        assert await box.stop() is False
        with pytest.raises(SandboxUnavailable, match="stopped"):
            await box.call("Bash", SLEEP)


@pytest.mark.engine
@pytest.mark.usefixtures("base_image")
async def test_running_calls_end_with_what_they_printed() -> None:
    results: list[CallResult[ExecResult]] = []
    begun = [threading.Event(), threading.Event()]
    async with Toolbox(warm=False) as box:

        async def call(number: int) -> None:
            def on_output(stream: str, data: bytes) -> None:
                begun[number].set()

            results.append(await box.call("Bash", SLEEP, on_output=on_output))

        with anyio.fail_after(120):
            async with anyio.create_task_group() as tasks:
                for number in range(2):
                    tasks.start_soon(call, number)
                for event in begun:
                    assert await anyio.to_thread.run_sync(event.wait, 90)
                assert await box.stop() is True
    assert [result.output.status for result in results] == ["cancelled"] * 2
    assert [result.output.stdout for result in results] == [b"up\n"] * 2
