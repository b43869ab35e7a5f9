"""What goes in and comes out, on the real engine."""

from __future__ import annotations

import functools
import hashlib
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import psutil
import pytest
from tests.sandbox.docker.running import ENV, Run

from sandboxed_tools.errors import InvalidInput
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker.backend import DockerSandbox
from sandboxed_tools.sandbox.docker.protocol import WINDOW_BYTES
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.result import Stream

pytestmark = pytest.mark.engine

MIB = 1024 * 1024


def test_both_streams_come_apart_with_the_exit_code(run: Run) -> None:
    result = run("echo out; echo err >&2; exit 3")
    assert (result.status, result.exit_code) == ("exited", 3)
    assert (result.stdout, result.stderr) == (b"out\n", b"err\n")


def test_environment_is_exactly_what_was_given(run: Run) -> None:
    result = run(("/usr/bin/env", "-0"), env={"PATH": "/bin", "EMPTY": "", "ODD": "a\nb\udcff"})
    assert sorted(result.stdout.split(b"\0")) == [b"", b"EMPTY=", b"ODD=a\nb\xff", b"PATH=/bin"]


def test_many_large_variables_and_arguments_arrive(run: Run) -> None:
    env = {f"V{number}": "x" * 100_000 for number in range(8)} | {"PATH": "/usr/bin:/bin"}
    result = run(("bash", "-c", "echo ${#V7} ${#1}", "name", "y" * 120_000), env=env)
    assert result.stdout == b"100000 120000\n"


def test_environment_is_not_in_the_containers_configuration(run: Run) -> None:
    # The launcher's own environment is part of it; nobody inside may read even that.
    result = run("tr '\\0' '\\n' </proc/1/environ")
    assert (result.exit_code, result.stdout) == (1, b"")


def test_home_below_tmp_is_there_private_and_can_execute(run: Run) -> None:
    result = run('cd "$HOME" && cp /bin/true t && ./t && stat -c %a . && pwd')
    assert result.stdout == b"700\n/tmp/home\n"


def test_directory_is_entered_and_the_last_one_reported(run: Run) -> None:
    result = run("pwd; mkdir deep; cd deep; cd -P .", cwd="/tmp")
    assert (result.stdout, result.cwd) == (b"/tmp\n", "/tmp/deep")


def test_directory_of_a_subshell_is_not_taken_for_the_commands_own(run: Run) -> None:
    assert run("(cd /usr); cd /tmp & wait; true", cwd="/var").cwd == "/var"


def test_missing_directory_and_missing_program_are_results(run: Run) -> None:
    missing = run("echo no", cwd="/no/such/place")
    assert (missing.status, missing.exit_code) == ("exited", 126)
    assert b"/no/such/place" in missing.stderr
    assert run(("no-such-program",)).exit_code == 127
    assert run(("/etc/passwd",)).exit_code == 126


def test_without_input_stdin_is_empty_and_no_pipe(run: Run) -> None:
    assert run("cat; test -p /dev/stdin; echo $?").stdout == b"1\n"


@pytest.mark.parametrize("size", [0, 1, WINDOW_BYTES, WINDOW_BYTES + 1, 3 * MIB + 17])
def test_input_of_any_size_arrives_whole(run: Run, size: int) -> None:
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    result = run("sha256sum; test -p /dev/stdin; echo $?", stdin=data)
    assert result.stdout.decode() == f"{hashlib.sha256(data).hexdigest()}  -\n0\n"
    assert result.stderr == b""


def test_hundred_megabytes_of_streamed_input_arrive_whole(run: Run) -> None:
    chunk = bytes(range(256)) * 1000
    digest = hashlib.sha256()

    async def stream() -> AsyncIterator[bytes]:
        for _ in range(100_000_000 // len(chunk)):
            digest.update(chunk)
            yield chunk
        yield b""
        yield b"end"
        digest.update(b"end")

    result = run("sha256sum", stdin=stream())
    assert result.stdout.decode().split() == [digest.hexdigest(), "-"]


def test_input_that_nobody_reads_does_not_hold_the_call(run: Run) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 100_000

    assert run("exit 5", stdin=endless()).exit_code == 5
    assert run("exec <&-; sleep 0.2; exit 6", stdin=b"x" * (5 * MIB)).exit_code == 6


def test_stream_of_input_that_raises_ends_the_call_with_its_error(run: Run) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"first"
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        run("sleep 60", stdin=broken())


def test_input_and_much_output_at_once_do_not_block_each_other(run: Run) -> None:
    data = b"line of input\n" * 400_000
    result = run("tee /dev/stderr", stdin=data)
    assert (result.stdout_bytes, result.stderr_bytes) == (len(data), len(data))


def test_script_of_two_megabytes_runs_from_a_descriptor(run: Run) -> None:
    script = b"# padding\n" * 200_000 + b'echo "$0 $# last line"; exit 4\n'
    result = run(("bash", "/proc/self/fd/3", "argument"), script=script)
    assert (result.exit_code, result.stdout) == (4, b"/proc/self/fd/3 1 last line\n")


def test_script_cannot_be_changed_by_what_runs_from_it(run: Run) -> None:
    script = b"echo 'echo evil' >/proc/self/fd/3 || echo sealed\ntrue >>/proc/self/fd/3\n"
    result = run(("bash", "/proc/self/fd/3"), script=script)
    assert result.stdout == b"sealed\n"


def test_no_descriptor_of_the_launcher_reaches_the_command(run: Run) -> None:
    assert run("echo /proc/self/fd/*").stdout.split() == [
        b"/proc/self/fd/0",
        b"/proc/self/fd/1",
        b"/proc/self/fd/2",
        b"/proc/self/fd/3",  # the shell's own, for the listing
    ]


@pytest.mark.parametrize("argument", ["a\0b", "x" * 128 * 1024])
def test_what_execve_cannot_carry_is_refused_before_anything_runs(run: Run, argument: str) -> None:
    with pytest.raises(InvalidInput):
        run(("echo", argument))


def test_bytes_that_are_no_text_come_back_unchanged(run: Run) -> None:
    result = run(r"printf '\377\0\342\202'; sleep 0.05; printf '\254\033[31m'")
    assert result.stdout == b"\xff\0\xe2\x82\xac\x1b[31m"


def test_last_words_of_a_quick_exit_are_never_lost(run: Run) -> None:
    for number in range(10):
        result = run(f"printf %0100000d {number}; printf %0100000d {number} >&2; kill -9 $$")
        assert (result.stdout_bytes, result.stderr_bytes) == (100_000, 100_000)
        assert result.stdout.endswith(str(number).encode())


def test_live_output_comes_while_the_command_runs(run: Run) -> None:
    seen: list[tuple[Stream, bytes, float]] = []
    result = run(
        "echo first; sleep 0.6; echo second >&2",
        on_output=lambda stream, data: seen.append((stream, data, time.monotonic())),
    )
    assert [(stream, data) for stream, data, _ in seen] == [
        ("stdout", b"first\n"),
        ("stderr", b"second\n"),
    ]
    assert seen[1][2] - seen[0][2] > 0.3
    assert result.exit_code == 0


def test_sink_that_hangs_holds_neither_the_container_nor_the_result(run: Run) -> None:
    release = threading.Event()

    def hang(_stream: Stream, _data: bytes) -> None:
        release.wait(30)

    result = run(
        "head -c 20000000 /dev/zero; echo end >&2",
        on_output=hang,
    )
    release.set()
    assert (result.stdout_bytes, result.stderr) == (20_000_000, b"end\n")
    assert any("live output" in warning for warning in result.warnings)


def test_sink_that_raises_is_reported_and_does_not_change_the_result(run: Run) -> None:
    def sink(_stream: Stream, _data: bytes) -> None:
        raise OSError("the terminal is gone")

    result = run("echo out", on_output=sink)
    assert (result.exit_code, result.stdout) == (0, b"out\n")
    assert any("raised" in warning for warning in result.warnings)


def test_flood_ends_as_output_limit_with_memory_flat(run: Run) -> None:
    process = psutil.Process()
    run("true")
    before = process.memory_info().rss
    result = run("yes & yes >&2 & yes", output_total_bytes="64m", output_kept_bytes="64k")
    assert result.status == "output_limit"
    assert result.limits_hit >= {"output", "output_kept"}
    assert result.truncated
    assert len(result.stdout) < 100_000
    assert result.stdout_bytes + result.stderr_bytes > 64 * MIB
    assert process.memory_info().rss - before < 32 * MIB


def test_gigabyte_without_a_newline_leaves_memory_flat(run: Run) -> None:
    process = psutil.Process()
    run("true")
    before = process.memory_info().rss
    result = run("head -c 1073741824 /dev/zero", output_total_bytes="2g", wall_s=120)
    assert (result.status, result.stdout_bytes) == ("exited", 1 << 30)
    assert process.memory_info().rss - before < 32 * MIB


def test_whole_output_goes_into_files_when_asked(
    sandbox: DockerSandbox, base_image: str, tmp_path: Path
) -> None:
    spec = SandboxSpec(base_image, limits=Limits.of(output_kept_bytes="4k", wall_s=60))
    command = Command(("bash", "-c", "seq 200000; echo error >&2; exit 3"), env=ENV)
    run = functools.partial(sandbox.run, spill=tmp_path)
    result = anyio.run(run, spec, command)
    assert (result.exit_code, result.truncated, result.warnings) == (3, True, ())
    expected = b"".join(b"%d\n" % number for number in range(1, 200_001))
    assert (tmp_path / "stdout").read_bytes() == expected
    assert (tmp_path / "stderr").read_bytes() == b"error\n"
    assert (tmp_path / "stdout").stat().st_mode & 0o777 == 0o600
    # Nothing is replaced, and no link is followed.
    with pytest.raises(FileExistsError):
        anyio.run(run, spec, command)
