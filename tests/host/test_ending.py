"""When a call ends, nothing of it lives on, and nothing is left in the file system."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import psutil
import pytest
from tests.host.attacker import Run

from sandboxed_tools.errors import SandboxUnavailable
from sandboxed_tools.host import HostOutcome, bash_command, run_on_host
from sandboxed_tools.host.gate import probe_gate
from sandboxed_tools.tool.limits import Limits

DEADLINE_S = 60.0

LINGERERS = """
sleep {s} &
setsid sleep {s} &
nohup sleep {s} >/dev/null 2>&1 &
(setsid bash -c 'trap "" TERM HUP; sleep {s} & sleep {s}' &) &
coproc sleep {s}
"""


def _seconds(number: int) -> str:
    """A duration that no other test and no other session uses, so that its processes are found."""
    return f"{number}.{os.getpid()}"


def _sleepers(seconds: str) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.cmdline() == ["sleep", seconds]:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.01)


@pytest.mark.parametrize("abi", [1, 5, 6, None])
def test_background_processes_and_daemons_end_with_the_main_process(
    abi: int | None, run: Run
) -> None:
    plan = probe_gate(abi=abi)[1]
    assert plan is not None
    seconds = _seconds(300 + (abi or 9))
    result = run(LINGERERS.format(s=seconds) + "echo end", gate=plan).result
    assert result.status == "exited"
    assert result.stdout.endswith(b"end\n")
    assert _sleepers(seconds) == []


def test_a_timeout_ends_daemons_too(run: Run) -> None:
    seconds = _seconds(311)
    text = LINGERERS.format(s=seconds) + "echo hi; sleep " + seconds
    result = run(text, limits=Limits(wall_s=1)).result
    assert result.status == "timeout"
    assert _sleepers(seconds) == []


def test_a_fork_bomb_ends_at_the_deadline(run: Run) -> None:
    # The kernel counts a user's processes, so other tests' calls feel these few dozen as well. The
    # name is this test's own: other sessions have bombs, too.
    name = f"bomb{os.getpid()}"
    bomb = f"{name}() {{ {name} | {name} & }}; {name}; while :; do {name}; done"
    result = run(bomb, limits=Limits(wall_s=1, pids=40)).result
    assert result.status in {"timeout", "exited", "signalled"}
    assert [p for p in psutil.process_iter() if _mentions(p, name)] == []


def _mentions(process: psutil.Process, text: str) -> bool:
    try:
        return f"{text}() {{" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def test_cancellation_of_the_caller_ends_everything(workspace: Path) -> None:
    seconds = _seconds(312)
    text = LINGERERS.format(s=seconds) + "sleep " + seconds

    async def call() -> None:
        with anyio.fail_after(DEADLINE_S):
            async with anyio.create_task_group() as group:
                group.start_soon(_run_text, text, workspace)
                await _until_lingerers_run(seconds)
                group.cancel_scope.cancel()

    anyio.run(call)
    assert _sleepers(seconds) == []


async def _until_lingerers_run(seconds: str) -> None:
    await anyio.to_thread.run_sync(_wait_until, lambda: len(_sleepers(seconds)) >= 6)


async def _run_text(text: str, workspace: Path) -> HostOutcome:
    return await run_on_host(bash_command(text), workspace=workspace, limits=Limits())


@pytest.mark.parametrize("delay_s", [0.0, 0.001, 0.003, 0.005, 0.01, 0.02, 0.04])
def test_cancellation_at_any_moment_leaves_nothing(delay_s: float, workspace: Path) -> None:
    seconds = _seconds(313)

    async def call() -> None:
        with anyio.move_on_after(delay_s):
            await _run_text(f"sleep {seconds} & sleep {seconds}", workspace)

    anyio.run(call)
    assert _sleepers(seconds) == []


def test_a_call_can_be_cancelled_and_keeps_its_output(workspace: Path) -> None:
    async def call() -> HostOutcome:
        cancel = anyio.Event()

        def seen(_stream: str, _data: bytes) -> None:
            anyio.from_thread.run_sync(cancel.set)

        return await run_on_host(
            bash_command(f"echo begun; sleep {_seconds(314)}"),
            workspace=workspace,
            limits=Limits(),
            on_output=seen,
            cancel=cancel,
        )

    result = anyio.run(call).result
    assert (result.status, result.exit_code, result.stdout) == ("cancelled", None, b"begun\n")
    assert _sleepers(_seconds(314)) == []


def test_many_calls_at_once_do_not_disturb_each_other(workspace: Path) -> None:
    outputs: list[bytes] = []

    async def one(number: int) -> None:
        text = f"echo {number} > $TMPDIR/x; sleep 0.05 & cat $TMPDIR/x"
        outputs.append((await _run_text(text, workspace)).result.stdout)

    async def call() -> None:
        async with anyio.create_task_group() as group:
            for number in range(12):
                group.start_soon(one, number)

    anyio.run(call)
    assert sorted(outputs) == sorted(f"{number}\n".encode() for number in range(12))


CLIENT = """
    import anyio, sys
    from pathlib import Path
    from sandboxed_tools.host import bash_command, run_on_host
    from sandboxed_tools.tool.limits import Limits
    {before}
    command = bash_command({text!r})
    anyio.run(lambda: run_on_host(command, workspace=Path({workspace!r}), limits=Limits()))
"""

FORK = "import os\n    if os.fork() == 0:\n        import time; time.sleep(60); os._exit(0)"


@pytest.mark.parametrize("before", ["", FORK], ids=["alone", "with_a_forked_child"])
def test_killing_the_client_leaves_no_process_and_no_folder(before: str, workspace: Path) -> None:
    seconds = _seconds(315) if before else _seconds(316)
    text = LINGERERS.format(s=seconds) + "mkdir -p $TMPDIR/a/b; sleep " + seconds
    program = textwrap.dedent(CLIENT.format(before=before, text=text, workspace=str(workspace)))
    with subprocess.Popen([sys.executable, "-c", program], start_new_session=True) as client:
        try:
            _wait_until(lambda: len(_sleepers(seconds)) >= 6)
            os.kill(client.pid, signal.SIGKILL)
            client.wait(DEADLINE_S)
            _wait_until(lambda: _sleepers(seconds) == [])
            _wait_until(lambda: not _supervisors_of(client.pid))
            _wait_until(lambda: not _scratch_folders())
        finally:
            # The forked child, which has nothing to do with the call.
            with suppress(ProcessLookupError):
                os.killpg(client.pid, signal.SIGKILL)


def _supervisors_of(client: int) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if len(words) > 4 and "module.main(" in words[4] and words[-1] == str(client):
            found.append(process.pid)
    return found


def _scratch_folders() -> list[str]:
    return [n for n in os.listdir(tempfile.gettempdir()) if n.startswith("sandboxed-tools-host")]


def test_a_client_that_ignores_the_end_of_children_gets_the_exit_code(workspace: Path) -> None:
    before = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
    program = (
        textwrap.dedent(
            CLIENT.format(before=before, text="(exit 5); exit 7", workspace=str(workspace))
        )
        .replace("anyio.run(", "print(anyio.run(")
        .rstrip()
        + ".result.exit_code)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120)
    assert done.stdout == b"7\n", done.stderr.decode()


def test_a_client_that_ends_leaves_no_spare_supervisor(workspace: Path) -> None:
    program = textwrap.dedent(CLIENT.format(before="", text="echo hi", workspace=str(workspace)))
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program], stderr=subprocess.PIPE
    ) as client:
        _out, errors = client.communicate(timeout=120)
    assert (client.returncode, errors) == (0, b"")
    _wait_until(lambda: not _supervisors_of(client.pid))


def test_a_killed_supervisor_is_a_fault_and_leaves_nothing(workspace: Path) -> None:
    seconds = _seconds(317)

    async def call() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(_run_text, LINGERERS.format(s=seconds) + "sleep 90", workspace)
            await _until_lingerers_run(seconds)
            busy = [p for p in _supervisors_of(os.getpid()) if _has_children(p)]
            assert len(busy) == 1
            os.kill(busy[0], signal.SIGKILL)

    with pytest.raises(ExceptionGroup) as caught:
        anyio.run(call)
    assert caught.group_contains(SandboxUnavailable)
    assert _sleepers(seconds) == []


def _has_children(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).children())
    except psutil.NoSuchProcess:
        return False


def test_the_supervisor_cannot_be_reached_by_the_command(run: Run) -> None:
    result = run("kill -9 $PPID; kill -STOP $PPID; cat /proc/$PPID/environ; exit 5").result
    assert (result.status, result.exit_code) == ("exited", 5)
    assert result.stderr.count(b"not permitted") == 2


def test_the_command_killing_everything_it_can_ends_only_itself(run: Run, outsider: int) -> None:
    result = run("kill -9 -1; echo alive").result
    assert result.status in {"exited", "signalled"}
    assert psutil.pid_exists(outsider)


@pytest.mark.timeout(900)
def test_scratch_is_removed_whatever_was_left_in_it(run: Run) -> None:
    path = "/".join("d" * 600)
    deep = f"cd $TMPDIR; for i in 1 2; do mkdir -p {path} && cd {path} || exit 1; done; "
    text = deep + "cd $TMPDIR; mkdir -m 000 closed; : > $'x\\ny'; : > ./-rf; umask 777; : > shut"
    assert run(text, limits=Limits(wall_s=800)).result.ok
