"""A program that waits in its container for a call: started before, used once, bound by it."""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker.backend import DockerSandbox
from sandboxed_tools.sandbox.docker.container import Container, launch
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.sandbox.docker.protocol import Frame, begin_frame
from sandboxed_tools.sandbox.docker.shelf import MAX_TARGET
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.result import ExecResult

pytestmark = pytest.mark.engine

READS = ("bash", "-c", 'echo "$PWD $SANDBOX_CWD $(ulimit -f)"; cat')


@pytest.fixture(scope="module")
def sandbox(engine: Engine, base_image: str) -> Iterator[DockerSandbox]:
    box = DockerSandbox(engine)
    yield box
    box.close()


def spec(base_image: str, program: tuple[str, ...], **limits: Any) -> SandboxSpec:
    return SandboxSpec(base_image, limits=Limits.of(**{"wall_s": 120, **limits}), waiting=program)


async def run(
    sandbox: DockerSandbox, wanted: SandboxSpec, stdin: bytes | AsyncIterator[bytes] | None
) -> ExecResult:
    return await sandbox.run(wanted, Command(wanted.waiting, stdin=stdin))


async def test_it_gets_the_input_of_its_call_and_the_directory(
    sandbox: DockerSandbox, base_image: str
) -> None:
    silent = ("bash", "-c", 'read -r line; echo "$line $PWD $SANDBOX_CWD"; cat')
    wanted = spec(base_image, silent)
    assert await sandbox.prewarm(wanted, 1) == 1
    for number in range(3):
        result = await run(sandbox, wanted, b"%d\nrest" % number)
        assert (result.exit_code, result.stdout) == (0, b"%d / /\nrest" % number)
    await sandbox.prewarm(wanted, 0)


async def test_without_input_its_input_ends(sandbox: DockerSandbox, base_image: str) -> None:
    result = await run(sandbox, spec(base_image, ("cat",)), None)
    assert (result.status, result.stdout) == ("exited", b"")


async def test_input_of_any_length_reaches_it(sandbox: DockerSandbox, base_image: str) -> None:
    async def stream() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b"x" * 65_536

    result = await run(sandbox, spec(base_image, ("wc", "-c")), stream())
    assert result.stdout.strip() == b"4194304"


async def test_the_limits_are_those_of_the_call(sandbox: DockerSandbox, base_image: str) -> None:
    program = ("bash", "-c", "read -r line; ulimit -f; sleep $line")
    one, other = spec(base_image, program, file_bytes="1m"), spec(base_image, program)
    assert await sandbox.prewarm(one, 1) == 1
    result = await run(sandbox, one, b"0")
    assert result.stdout == b"1024\n"
    assert (await run(sandbox, other, b"0")).stdout == b"1048576\n"
    late = await run(sandbox, spec(base_image, program, wall_s=1), b"100")
    assert late.status == "timeout"
    await sandbox.prewarm(one, 0)


@pytest.mark.parametrize(
    "command",
    [
        Command(("true",)),
        Command(READS, env={"A": "1"}),
        Command(READS, cwd="/tmp"),
        Command(READS, script=b"x"),
    ],
    ids=["other program", "environment", "directory", "script"],
)
async def test_a_call_that_is_not_for_the_program_is_refused(
    sandbox: DockerSandbox, base_image: str, command: Command
) -> None:
    with pytest.raises(ConfigurationError):
        await sandbox.run(spec(base_image, READS), command)


async def test_a_program_that_ends_before_its_call_serves_none(
    sandbox: DockerSandbox, base_image: str
) -> None:
    for program, code in ((("false",), 1), (("nothing-like-this",), 127)):
        wanted = spec(base_image, program)
        for _ in range(3):
            result = await run(sandbox, wanted, b"")
            assert (result.status, result.exit_code) == ("exited", code)


async def test_programs_that_end_at_once_are_not_started_again_and_again(
    engine: Engine, base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[float] = []

    def counted(*given: Any, **named: Any) -> Container:
        made.append(time.monotonic())
        return launch(*given, **named)

    monkeypatch.setattr("sandboxed_tools.sandbox.docker.backend.launch", counted)
    box = DockerSandbox(engine)
    try:
        await run(box, spec(base_image, ("false",)), b"")
        with anyio.fail_after(60):
            while True:
                if box.status().shelves[0].deaths >= 4:
                    break
                await anyio.sleep(0.1)
        # Pauses of 0.5, 1, 2 s between them, and at most a shelf full after each.
        assert made[-1] - made[0] > 2
        assert len(made) <= MAX_TARGET * (box.status().shelves[0].deaths + 1)
    finally:
        await box.aclose()


async def test_cancelling_a_call_ends_the_program(sandbox: DockerSandbox, base_image: str) -> None:
    program = ("bash", "-c", "read -r line; sleep 1000")
    with anyio.move_on_after(2) as scope:
        await run(sandbox, spec(base_image, program), b"go\n")
    assert scope.cancelled_caught


def test_the_frame_that_begins_a_call_says_its_bounds_and_no_more() -> None:
    data = begin_frame(file_bytes=5, deadline_s=1.5, heartbeat_s=None)
    assert data[:1] == Frame.BEGIN
    assert data[5:] == b"d\0\0\0\x041500f\0\0\0\x015"


def test_a_program_that_waits_makes_another_mould(base_image: str) -> None:
    plain = SandboxSpec(base_image)
    assert plain != functools.partial(SandboxSpec, base_image)(waiting=READS)
