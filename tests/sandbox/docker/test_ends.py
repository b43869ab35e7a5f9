"""How calls end: by themselves, by limits, by deadlines, and by what they do against it."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import AsyncIterator

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
from tests.sandbox.docker.running import ENV, Run, eventually

from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker.backend import DockerSandbox, StopRequest
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.result import Stream

pytestmark = pytest.mark.engine

FORK_BOMB = """
import os, signal
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    try:
        os.fork()
    except OSError:
        pass
"""


def test_signal_of_the_main_process_is_named(run: Run) -> None:
    for number in (6, 9, 11, 15):
        result = run(f"kill -{number} $$")
        assert (result.status, result.signal, result.exit_code) == ("signalled", number, None)


def test_own_output_and_exit_code_fake_no_status(run: Run) -> None:
    result = run("echo Killed >&2; echo 'Out of memory'; exit 137")
    assert (result.status, result.exit_code, result.limits_hit) == ("exited", 137, frozenset())


@pytest.mark.parametrize(
    ("text", "exit_code"),
    [
        ("echo 'write error: No space left on device' >&2; exit 28", 28),
        ("echo 'fork: Resource temporarily unavailable' >&2; exit 254", 254),
        ("ulimit -v 30000; python3 -c 'bytearray(1 << 30)' 2>/dev/null; exit 3", 3),  # its own
        (
            "python3 -c 'import os, resource, sys\n"
            "resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))\n"
            "try: os.fork()\n"
            "except OSError: sys.exit(4)'",
            4,
        ),
        ("sh -c 'kill -9 $$'; exit $?", 137),
        ("sleep 1 & kill -9 $!; wait $!", 137),
    ],
)
def test_what_only_looks_like_a_limit_is_none(run: Run, text: str, exit_code: int) -> None:
    result = run(text)
    assert (result.status, result.exit_code) == ("exited", exit_code)
    assert result.limits_hit <= {"cpu"}


def test_memory_of_the_main_process_ends_as_oom(run: Run) -> None:
    result = run(("python3", "-c", "x = bytearray(1 << 30)"), memory_bytes="64m")
    assert (result.status, result.limits_hit) == ("oom", frozenset({"memory"}))
    assert (result.usage.memory_peak_bytes or 0) > 60 << 20


def test_memory_of_a_child_is_a_limit_touched(run: Run) -> None:
    result = run("python3 -c 'x = bytearray(1 << 30)'; echo rc=$?", memory_bytes="64m")
    assert (result.status, result.exit_code) == ("exited", 0)
    assert result.stdout == b"rc=137\n"
    assert "memory" in result.limits_hit


def test_memory_filled_by_files_in_tmp_is_named_by_the_kernel(run: Run) -> None:
    result = run("head -c 100000000 /dev/zero >/tmp/x", memory_bytes="48m", tmp_bytes="256m")
    assert result.status in ("oom", "exited")
    assert "memory" in result.limits_hit


def test_full_tmp_is_a_limit_touched(run: Run) -> None:
    for text in (
        "head -c 9000000 /dev/zero >/tmp/x",
        "for i in $(seq 300); do : >/tmp/$i; done 2>/dev/null",
    ):
        result = run(text, tmp_bytes="4m", tmp_inodes=64)
        assert result.status == "exited"
        assert "tmp" in result.limits_hit


def test_other_places_without_room_are_not_tmp(run: Run) -> None:
    result = run("echo x >/dev/full; touch /usr/x; exit 5", tmp_bytes="4m")
    assert (result.exit_code, result.limits_hit) == (5, frozenset())


def test_file_that_grows_too_large_ends_its_writer(run: Run) -> None:
    result = run(("head", "-c", "5000000", "/dev/zero"), file_bytes="1m")
    assert (result.status, result.stdout_bytes) == ("exited", 5_000_000)  # a pipe is no file
    result = run("exec head -c 5000000 /dev/zero >/tmp/x", file_bytes="1m")
    assert (result.status, result.limits_hit) == ("disk_limit", frozenset({"file_size"}))


def test_refused_forks_are_a_limit_touched(run: Run) -> None:
    result = run("for i in $(seq 30); do sleep 5 & done 2>/dev/null; exit 0", pids=16, wall_s=20)
    assert "pids" in result.limits_hit


def test_processor_quota_is_a_limit_touched_and_counted(run: Run) -> None:
    # Long, and under a small quota: on a machine full of others it must still get that much.
    result = run("timeout 4 sh -c 'while :; do :; done'", cpus=0.1)
    assert "cpu" in result.limits_hit
    assert result.usage.cpu_s is not None
    assert 0.05 < result.usage.cpu_s < 2  # it would use 4 without a quota


def test_background_process_holding_the_pipes_does_not_hold_the_call(run: Run) -> None:
    result = run("(trap '' TERM HUP; sleep 600; echo late) & setsid sleep 600 & echo now; exit 7")
    assert (result.status, result.exit_code, result.stdout) == ("exited", 7, b"now\n")


def test_closed_streams_are_not_the_end(run: Run) -> None:
    result = run("exec >&- 2>&-; sleep 0.5; exit 8")
    assert (result.status, result.exit_code) == ("exited", 8)
    assert result.phases.run_s > 0.4


@pytest.mark.parametrize(
    "text",
    [
        'trap "" TERM INT HUP QUIT; echo hi; sleep 100',
        "echo hi; kill -STOP $$",
        "echo hi; exec >&- 2>&-; sleep 100",
        'echo hi; (trap "" TERM; setsid sleep 100 & sleep 100); sleep 100',
    ],
)
def test_deadline_ends_whatever_resists_with_the_output_so_far(run: Run, text: str) -> None:
    result = run(text, wall_s=3)
    assert (result.status, result.exit_code, result.stdout) == ("timeout", None, b"hi\n")
    assert result.limits_hit == {"wall"}
    assert 3 <= result.phases.run_s < 13


def test_silence_ends_as_idle_timeout_and_output_postpones_it(run: Run) -> None:
    result = run("for i in 1 2 3 4; do echo $i; sleep 1; done; sleep 100", idle_s=3)
    assert (result.status, result.limits_hit) == ("idle_timeout", frozenset({"idle"}))
    assert result.stdout == b"1\n2\n3\n4\n"


@pytest.mark.parametrize(("pids", "cpus"), [(64, 1.0), (512, 0.5)])
def test_fork_bomb_ends_in_time_with_the_machine_answering(
    run: Run, pids: int, cpus: float
) -> None:
    result = run(("python3", "-c", FORK_BOMB), pids=pids, cpus=cpus, wall_s=1)
    assert result.status == "timeout"
    assert result.phases.run_s < 11
    assert run("echo still here").stdout == b"still here\n"


def test_spinners_under_the_smallest_quota_are_gone_soon_after(run: Run, api: object) -> None:
    import docker

    from sandboxed_tools.tool.state import installation_id

    assert isinstance(api, docker.APIClient)
    text = "for i in $(seq 50); do (while :; do :; done) & done; wait"
    result = run(text, cpus=0.1, wall_s=1)
    assert result.status == "timeout"
    assert result.phases.run_s < 11
    deadline = time.monotonic() + 30
    mine = {"label": f"sandboxed-tools.installation={installation_id()}", "status": "running"}
    while api.containers(filters=mine):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_cancelled_call_returns_at_once_and_leaves_nothing(
    sandbox: DockerSandbox, base_image: str, backend: str
) -> None:
    async def main() -> float:
        ready, token = anyio.Event(), anyio.lowlevel.current_token()

        def sink(_stream: Stream, _data: bytes) -> None:
            anyio.from_thread.run_sync(ready.set, token=token)

        async with anyio.create_task_group() as group:
            group.start_soon(
                sandbox.run,
                SandboxSpec(base_image),
                Command(("bash", "-c", "echo ready; trap '' TERM; sleep 100 & wait"), env=ENV),
                sink,
            )
            with anyio.fail_after(30):
                await ready.wait()
            begin = time.monotonic()
            group.cancel_scope.cancel()
        return time.monotonic() - begin

    assert anyio.run(main, backend=backend) < 10


@pytest.mark.parametrize("delay_s", [0.0, 0.02, 0.1, 0.3])
def test_call_cancelled_while_its_container_is_made_leaves_nothing(
    engine: object, base_image: str, delay_s: float
) -> None:
    from sandboxed_tools.sandbox.docker.engine import Engine

    assert isinstance(engine, Engine)
    box = DockerSandbox(engine, warm=False)

    async def main() -> None:
        with anyio.move_on_after(delay_s):
            await box.run(SandboxSpec(base_image), Command(("sleep", "100"), env=ENV))
        await box.aclose()

    anyio.run(main)
    # The check for leaks at the end of the session is the other half of this test.


def test_stop_request_ends_the_call_with_its_output(run: Run) -> None:
    stop = StopRequest()
    result = run("echo so far; sleep 100", on_output=lambda *_: stop.set(), stop=stop)
    assert (result.status, result.stdout) == ("cancelled", b"so far\n")


def test_limits_hold_inside(run: Run) -> None:
    result = run(
        textwrap.dedent("""
        ulimit -n; ulimit -Hn; ulimit -c; df --output=size -B1 /tmp | tail -1
        cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null
        cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max 2>/dev/null
        """),
        memory_bytes="96m",
        open_files=64,
        pids=32,
        tmp_bytes="8m",
    )
    values = [int(word) for word in result.stdout.split()]
    assert values == [64, 64, 0, 8 << 20, 96 << 20, 33]


def test_many_calls_at_once_do_not_mix(sandbox: DockerSandbox, base_image: str) -> None:
    spec = SandboxSpec(base_image, limits=Limits(memory_bytes=64 << 20, wall_s=60))
    outputs: dict[int, bytes] = {}

    async def one(number: int) -> None:
        command = Command(("bash", "-c", f"echo {number}; cat"), env=ENV, stdin=b"%d" % number)
        outputs[number] = (await sandbox.run(spec, command)).stdout

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(one, number)

    anyio.run(main)
    assert outputs == {number: b"%d\n%d" % (number, number) for number in range(8)}


INOTIFY = """
import ctypes, sys
made = 0
while ctypes.CDLL(None).inotify_init() >= 0:
    made += 1
print(made, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only a root client gives each call its own user")
def test_what_the_kernel_counts_for_a_user_is_each_calls_own(
    sandbox: DockerSandbox, base_image: str
) -> None:
    # On many systems a user has 128 of these; a call that takes all leaves the next call its own.
    spec = SandboxSpec(base_image, limits=Limits.of(open_files=4096, wall_s=90))
    command = ("python3", "-c", INOTIFY)
    counts: list[bytes] = []

    async def main() -> None:
        async def second() -> AsyncIterator[bytes]:
            await anyio.to_thread.run_sync(eventually, lambda: bool(counts))
            result = await sandbox.run(spec, Command(command, env=ENV))
            counts.append(result.stdout)
            yield b"go on"

        def first(_stream: Stream, data: bytes) -> None:
            counts.append(data)

        await sandbox.run(spec, Command(command, env=ENV, stdin=second()), first)

    anyio.run(main)
    assert len(counts) == 2
    assert counts[0] == counts[1]
    assert int(counts[0]) > 0
