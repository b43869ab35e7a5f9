"""``run``: the command's own streams and exit code, and an ending for everything else."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from tests.cli.command_line import command_line

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("engine")]


def test_stdout_stderr_and_exit_code_stay_apart() -> None:
    done = command_line("run", "--json", "--", "echo out; echo err >&2; exit 3")
    assert done.code == 3
    found = done.object
    assert (found["stdout"], found["stderr"], found["exit_code"]) == ("out\n", "err\n", 3)
    assert found["status"] == "exited"
    assert found["placement"] == "container"
    assert found["reasons"]

    plain = command_line("run", "--", "echo out; echo err >&2; exit 3")
    assert (plain.code, plain.stdout, plain.stderr) == (3, b"out\n", b"err\n")


def test_a_timeout_ends_a_command_that_ignores_signals_and_keeps_its_output() -> None:
    # Long enough for a busy machine to print it.
    done = command_line("run", "--json", "--timeout", "8", "--", 'trap "" TERM; echo hi; sleep 500')
    assert done.code == 124
    assert done.object["status"] == "timeout"
    assert done.object["stdout"] == "hi\n"
    assert done.object["phases"]["run_s"] >= 8


def test_a_memory_bomb_ends_as_oom() -> None:
    done = command_line(
        "run", "--json", "--memory", "64m", "--", "python3", "-c", "x = bytearray(1 << 30)"
    )
    assert (done.object["status"], done.code) == ("oom", 137)
    assert "memory" in done.object["limits_hit"]


def test_a_flood_ends_as_output_limit_with_head_and_tail() -> None:
    done = command_line("run", "--json", "--", "yes")
    assert (done.object["status"], done.code) == ("output_limit", 122)
    assert done.object["truncated"]
    assert done.object["stdout_bytes"] >= 64 * 1024 * 1024
    assert len(done.object["stdout"]) < 1_100_000


def test_a_fork_bomb_ends_and_the_host_stays_responsive() -> None:
    done = command_line("run", "--json", "--timeout", "8", "--", ":(){ :|:& };: ; sleep 60")
    assert done.object["status"] in ("timeout", "exited")
    assert "pids" in done.object["limits_hit"]
    assert command_line("run", "--", "echo ok").stdout == b"ok\n"


def test_a_signal_is_told_from_an_exit_code() -> None:
    done = command_line("run", "--json", "--", "kill -9 $$")
    assert (done.object["status"], done.object["signal"], done.code) == ("signalled", 9, 137)
    done = command_line("run", "--json", "--", "echo Killed; exit 137")
    assert (done.object["status"], done.object["exit_code"], done.code) == ("exited", 137, 137)


def test_several_words_are_a_program_and_its_arguments_and_options_end_there() -> None:
    assert command_line("run", "printf", "%s|", "a b", "$HOME", "--json").text == (
        "a b|$HOME|--json|"
    )


def test_words_of_any_bytes_arrive_as_they_are() -> None:
    done = command_line("run", "--json", "--", "printf", "%s", b"\xff\xfe")
    assert done.object["stdout_base64"] == "//4="


def test_the_environment_is_exactly_what_is_given() -> None:
    done = command_line("run", "-e", "A=1=2", "--", "env | sort")
    assert "A=1=2" in done.text.splitlines()
    names = {line.split("=")[0] for line in done.text.splitlines()}
    assert names <= {
        "A", "GIT_TERMINAL_PROMPT", "HOME", "LANG", "OLDPWD", "PATH", "PWD", "SHLVL", "TERM",
        "TMPDIR", "_",
    }  # fmt: skip


def test_standard_input_is_empty_unless_it_is_passed_on() -> None:
    data = bytes(range(256)) * 4000
    assert command_line("run", "--", "wc -c", stdin=data).text.strip() == "0"
    assert command_line("run", "-i", "--", "wc -c", stdin=data).text.strip() == str(len(data))
    assert command_line("run", "-i", "--", "cat", stdin=data).stdout == data


def test_live_output_is_whole_even_when_its_reader_is_slow() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sandboxed_tools.cli.main", "run", "--", "seq 1 300000"],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    with process.stdout as stream:
        first = stream.read(10)
        rest = stream.read()
    assert process.wait(timeout=60) == 0
    assert first + rest == b"".join(b"%d\n" % n for n in range(1, 300_001))


def test_a_workspace_is_seen_and_never_written(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / "a").write_text("a\n")
    done = command_line(
        "run", "--json", "-w", workspace, "--", "cat a; echo b > b; rm a; ls; pwd; cat /workspace/b"
    )
    assert done.object["stdout"] == f"a\nb\n{workspace}\nb\n"
    assert done.object["view"] in ("overlay", "copy")
    assert [path.name for path in workspace.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--timeout", "0"), "wall_s"),
        (("--timeout", "-1"), "wall_s"),
        (("--timeout", "1e9"), "wall_s"),
        (("--timeout", "abc"), "wall_s"),
        (("--memory", "0"), "memory_bytes"),
        (("--memory", "-1"), "memory_bytes"),
        (("--memory", "9e99"), "memory_bytes"),
        (("--cpus", "0.01"), "cpus"),
        (("--pids", "100000"), "pids"),
        (("--network", "host"), "network"),
        (("--env", "A"), "NAME=VALUE"),
        (("--workspace", "/proc/nonexistent"), "nonexistent"),
        (("--workspace", "/"), "/"),
        (("--workspace", "/etc/passwd"), "passwd"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error_that_names_it(
    options: tuple[str, ...], word: str
) -> None:
    done = command_line("run", *options, "--", "true")
    assert done.code == 2, done.errors
    assert word in done.errors
    assert "Traceback" not in done.errors
    as_json = command_line("run", "--json", *options, "--", "true")
    assert as_json.code == 2
    assert word in as_json.object["error"]["message"]


def test_an_empty_command_is_refused_and_none_is_a_usage_error() -> None:
    assert command_line("run", "--", "").code == 2
    assert command_line("run").code == 2


def test_a_two_megabyte_script_runs() -> None:
    script = "x=1\n" * 500_000 + "echo $x"
    # Longer than one argument may be, so it comes by the shell's standard input.
    done = command_line("run", "-i", "--", "bash", "-s", stdin=script.encode())
    assert done.text == "1\n"


def test_an_image_that_is_missing_is_a_sandbox_failure_that_says_what_to_do() -> None:
    done = command_line("run", "--image", "sandboxed-tools-test/none:1", "--", "true")
    assert done.code == 125
    assert "sandboxed-tools-test/none:1" in done.errors


def test_no_engine_is_a_sandbox_failure_that_says_what_to_do() -> None:
    import os

    env = {**os.environ, "DOCKER_HOST": "unix:///nonexistent/docker.sock"}
    done = command_line("run", "--json", "--", "true", env=env)
    assert done.code == 125
    assert done.object["error"]["code"] == "engine_not_found"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_the_call_and_leaves_nothing(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sandboxed_tools.cli.main", "run", "--", "echo up; sleep 100"],
        stdout=subprocess.PIPE,
        # A test run in the background of a shell inherits an interruption that is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    with process.stdout as stream:
        assert stream.readline() == b"up\n"
        process.send_signal(number)
        assert process.wait(timeout=90) == 130
    wait_until_nothing_is_left()


@contextmanager
def sleeping(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """``run --json WORDS… -- COMMAND`` whose command has written its output and sleeps now."""
    nap = f"100.{uuid.uuid4().int % 10**9:09}"
    command = f"echo out; echo err >&2; touch made; sleep {nap}"
    process = subprocess.Popen(
        [sys.executable, "-m", "sandboxed_tools.cli.main", "run", *words, "--", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    try:
        deadline = time.monotonic() + 90
        while not any(item.info["cmdline"] == ["sleep", nap] for item in processes()):
            assert process.poll() is None
            assert time.monotonic() < deadline, "the command never began"
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.stdout.close()
        process.wait(60)


def wait_until_nothing_is_left() -> None:
    deadline = time.monotonic() + 90
    # What other tests of this session have left may be going still.
    while left := command_line("ps", "--json").object:
        assert time.monotonic() < deadline, left


def processes() -> Iterator[psutil.Process]:
    return psutil.process_iter(["cmdline"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_call_still_has_its_result_as_json(
    number: signal.Signals, tmp_path: Path
) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    with sleeping("--json", "-w", str(workspace)) as process:
        process.send_signal(number)
        printed, _ = process.communicate(timeout=90)
    found = json.loads(printed)
    assert (found["status"], found["exit_code"]) == ("cancelled", None)
    assert (found["stdout"], found["stderr"]) == ("out\n", "err\n")
    assert found["placement"] == "container"
    assert process.returncode == 130
    assert list(workspace.iterdir()) == []
    wait_until_nothing_is_left()


def test_whoever_asks_twice_waits_for_no_result_and_leaves_nothing() -> None:
    with sleeping("--json") as process:
        # Both at once, however long this test has to wait for a processor between the two.
        for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
            process.send_signal(number)
        printed, _ = process.communicate(timeout=90)
    assert json.loads(printed)["status"] == "cancelled"
    assert process.returncode == 130
    wait_until_nothing_is_left()


def test_an_interruption_that_our_parent_ignores_stays_ignored() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sandboxed_tools.cli.main", "run", "-i", "--", "echo up; cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert process.stdout is not None
    assert process.stdout.read(3) == b"up\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(b"in", timeout=90)[0] == b"in"
    assert process.returncode == 0


def test_an_ask_rule_of_the_operator_is_not_answered_by_an_option(tmp_path: Path) -> None:
    import os

    config = tmp_path / "config" / "sandboxed-tools"
    config.mkdir(parents=True)
    (config / "policy.toml").write_text('ask = ["Run"]\n')
    workspace = tmp_path / "ws"
    workspace.mkdir()
    env = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    words = ("run", "--changes", "apply", "-w", workspace, "--", "touch x")
    refused = command_line(*words, env=env)
    assert refused.code == 126, refused.errors
    assert not (workspace / "x").exists()
    assert command_line(*words).code == 0
    assert (workspace / "x").exists()
