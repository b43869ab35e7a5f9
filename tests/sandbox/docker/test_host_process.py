"""Programs of set-up: deadlines, output, interruption, and daemons that hold the pipe."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from sandboxed_tools.sandbox.docker.host_process import run_program


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_dead(pid: int) -> None:
    deadline = time.monotonic() + 15
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)


def test_both_streams_are_read_and_the_exit_code_is_told() -> None:
    lines: list[str] = []
    done = run_program(sh("echo out; echo err >&2; exit 3"), deadline_s=20, on_line=lines.append)
    assert done.exit_code == 3
    assert not done.ok
    assert sorted(lines) == ["err", "out"]


def test_only_the_end_of_a_long_output_is_kept() -> None:
    done = run_program(sh("seq 100000; printf last-without-newline"), deadline_s=60)
    assert done.ok
    assert len(done.tail) == 40
    assert done.tail[-1] == "last-without-newline"


def test_carriage_returns_and_bad_bytes_do_no_harm() -> None:
    lines: list[str] = []
    run_program(sh(r"printf 'a\rb\377\n\n'"), deadline_s=20, on_line=lines.append)
    assert lines == ["a", "b\ufffd"]


def test_at_the_deadline_the_whole_group_is_ended(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    done = run_program(sh(f"sleep 1000 & echo $! >{pid_file}; wait"), deadline_s=3)
    assert done.timed_out
    assert not done.ok
    wait_until_dead(int(pid_file.read_text()))


def test_an_endless_output_does_not_get_past_the_deadline() -> None:
    assert run_program(["yes"], deadline_s=0.5).timed_out


def test_a_daemon_that_holds_the_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"setsid sleep 1000 & echo $! >{pid_file}; echo started"
    done = run_program(sh(script), deadline_s=60)
    pid = int(pid_file.read_text())
    try:
        assert done.ok
        assert done.tail == ("started",)
        assert is_alive(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_an_interrupted_caller_leaves_nothing_running(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_program(
            sh(f"echo $$ >{pid_file}; echo x; exec sleep 1000"), deadline_s=60, on_line=interrupt
        )
    wait_until_dead(int(pid_file.read_text()))


def test_standard_output_can_go_to_a_file(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        done = run_program(sh("echo data; echo note >&2"), deadline_s=20, stdout=file)
    assert (tmp_path / "out").read_text() == "data\n"
    assert done.tail == ("note",)


def test_a_program_that_does_not_exist_is_an_os_error() -> None:
    with pytest.raises(FileNotFoundError):
        run_program(["/nonexistent/program"], deadline_s=1)
