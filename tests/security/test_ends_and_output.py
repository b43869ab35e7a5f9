"""Invariants 5 and 6: every end comes in time and is complete; no output hurts the host."""

from __future__ import annotations

import os
import secrets
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import psutil
import pytest
from docker.errors import NotFound

from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.testing.conformance.bench import until
from sandboxed_tools.tool import ExecResult, Limits
from sandboxed_tools.tool.result import Stream

if TYPE_CHECKING:
    import docker

    from sandboxed_tools.sandbox.docker import DockerSandbox

pytestmark = pytest.mark.engine

MIB = 1024 * 1024
WALL_S = 1.5
# The promise is a second; the rest is for a machine that many tests share.
GRACE_S = 1.0 + 9.0
DEATH_S = 5.0 + 55.0


def alive(name: str) -> list[int]:
    """Processes of this host, containers included, that carry ``name`` in their arguments."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if process.pid != os.getpid()
        and any(name in word for word in process.info["cmdline"] or ())
    ]


def wait_until_dead(name: str) -> None:
    deadline = time.monotonic() + DEATH_S
    while left := alive(name):
        assert time.monotonic() < deadline, f"still alive: {left}"
        time.sleep(0.05)


HARD_TO_END = {
    "deaf": "trap '' TERM INT HUP QUIT; echo up; while :; do sleep 600; done",
    "stopped": "echo up; kill -STOP $$",
    "daemons": "for i in 1 2 3; do (setsid bash -c 'trap \"\" TERM; : NAME; sleep 600' &); done; "
    "echo up; sleep 600",
    "fork bomb": "b() { b | b & }; echo up; b; while :; do sleep 1; done",
    "spinners": "echo up; for i in $(seq 40); do (: NAME; while :; do :; done) & done; wait",
    "flood": "echo up; while :; do echo x; sleep 0.001; done",
}


def run(sandbox: DockerSandbox, text: str, **options: Any) -> ExecResult:
    limits = Limits.of(**{"wall_s": 120, **options})

    async def main() -> ExecResult:
        async with Toolbox(sandbox=sandbox, limits=limits) as box:
            done = await box.call("Bash", {"command": text})
            assert done.exec is not None
            return done.exec

    return anyio.run(main)


@pytest.mark.parametrize("kind", HARD_TO_END)
def test_the_deadline_returns_in_time_and_kills_every_process(
    sandbox: DockerSandbox, kind: str
) -> None:
    name = f"invariant5-{secrets.token_hex(6)}"
    text = f": {name}; " + HARD_TO_END[kind].replace("NAME", name)
    started = time.monotonic()
    result = run(sandbox, text, wall_s=WALL_S, output_total_bytes="256m")
    took = time.monotonic() - started
    assert result.status == "timeout"
    assert result.stdout.startswith(b"up\n")
    assert took < result.phases.queue_s + result.phases.start_s + WALL_S + GRACE_S
    wait_until_dead(name)


@pytest.mark.parametrize("kind", HARD_TO_END)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_cancelling_returns_in_time_and_kills_every_process(
    sandbox: DockerSandbox, kind: str, backend: str
) -> None:
    pytest.importorskip(backend)
    name = f"invariant5-{secrets.token_hex(6)}"
    text = f": {name}; " + HARD_TO_END[kind].replace("NAME", name)

    async def main() -> float:
        up: list[bytes] = []
        scope = anyio.CancelScope()

        async def call() -> None:
            async with Toolbox(sandbox=sandbox, limits=Limits.of(wall_s=60)) as box:
                with scope:
                    await box.call(
                        "Bash", {"command": text}, on_output=lambda _, data: up.append(data)
                    )

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            with anyio.fail_after(30):
                await until(lambda: up)
            started = time.monotonic()
            scope.cancel()
        return time.monotonic() - started

    assert anyio.run(main, backend=backend) < GRACE_S
    wait_until_dead(name)


def resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)


@pytest.mark.parametrize("redirection", ["", " >&2"], ids=["stdout", "stderr"])
def test_a_flood_ends_as_output_limit_and_memory_stays_flat(
    sandbox: DockerSandbox, redirection: str
) -> None:
    run(sandbox, "touch /tmp/warm-up")
    before = resident_bytes()
    result = run(sandbox, f"touch /tmp/x; yes{redirection}", output_total_bytes="64m")
    assert result.status == "output_limit"
    assert len(result.stdout) + len(result.stderr) < 2.1 * MIB
    assert resident_bytes() - before < 32 * MIB


def test_a_quarter_gibibyte_without_a_newline_keeps_its_head_and_its_end(
    sandbox: DockerSandbox,
) -> None:
    before = resident_bytes()
    text = "touch /tmp/x; printf FIRST; head -c 256M /dev/zero | tr '\\0' x; echo LAST; exit 9"
    result = run(sandbox, text, output_total_bytes="512m")
    assert (result.status, result.exit_code) == ("exited", 9)
    assert result.stdout_bytes == 256 * MIB + len("FIRSTLAST\n")
    assert result.stdout.startswith(b"FIRSTx")
    assert result.stdout.endswith(b"xLAST\n")
    assert resident_bytes() - before < 32 * MIB


def test_a_reader_that_is_stuck_blocks_neither_the_call_nor_the_engine(
    sandbox: DockerSandbox, api: docker.APIClient
) -> None:
    stuck = threading.Event()

    def hang(_stream: Stream, _data: bytes) -> None:
        stuck.wait(60)

    async def main() -> ExecResult:
        async with Toolbox(sandbox=sandbox, limits=Limits.of(wall_s=30)) as box:
            done = await box.call(
                "Bash",
                {"command": "touch /tmp/x; seq 1 500000; exit 4"},
                on_output=hang,
            )
            assert done.exec is not None
            return done.exec

    try:
        result = anyio.run(main)
        assert (result.status, result.exit_code) == ("exited", 4)
        assert result.stdout.endswith(b"500000\n")
        # A full list inspects each container, and hangs with one whose output nobody reads.
        started = time.monotonic()
        for container in api.containers(all=True):
            with suppress(NotFound):  # others remove theirs meanwhile
                api.inspect_container(container["Id"])
        assert time.monotonic() - started < 20
    finally:
        stuck.set()


SHAPES = {
    "every byte": (r"python3 -c 'import os; os.write(1, bytes(range(256)))'", bytes(range(256))),
    "split characters": (
        "for b in '\\303' '\\251' '\\344' '\\270' '\\255'; do printf $b; sleep 0.05; done",
        "é中".encode(),
    ),
    "invalid text": (r"touch /tmp/x; printf 'a\377\376b'", b"a\xff\xfeb"),
    "nothing": ("touch /tmp/x", b""),
    "no last newline": ("touch /tmp/x; printf end", b"end"),
    "only newlines": ("touch /tmp/x; printf '\\n\\n\\n'", b"\n\n\n"),
    "NUL bytes": ("touch /tmp/x; printf '\\0\\0a\\0'", b"\0\0a\0"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_output_of_any_shape_comes_whole(sandbox: DockerSandbox, shape: str) -> None:
    text, expected = SHAPES[shape]
    result = run(sandbox, text)
    assert result.stdout == expected
    assert not result.truncated
