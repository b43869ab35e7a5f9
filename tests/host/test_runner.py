from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from tests.host.attacker import PYTHON, Run, require_system_python

from sandboxed_tools.errors import InvalidInput, InvalidWorkspace, PathRefused, SandboxUnavailable
from sandboxed_tools.host import HostOutcome, bash_command, gate, run_on_host
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits


def _run(command: Command, workspace: Path, **limits: float) -> HostOutcome:
    async def call() -> HostOutcome:
        return await run_on_host(command, workspace=workspace, limits=Limits.of(**limits))

    return anyio.run(call)


def test_output_and_exit_code_come_back_apart(run: Run) -> None:
    result = run("echo out; echo err >&2; exit 3").result
    assert (result.status, result.exit_code) == ("exited", 3)
    assert (result.stdout, result.stderr) == (b"out\n", b"err\n")
    assert result.view == "host"
    assert result.image is None


def test_usage_and_phases_are_measured(run: Run) -> None:
    result = run("for ((i = 0; i < 100000; i++)); do :; done").result
    assert result.usage.cpu_s is not None
    assert result.usage.cpu_s > 0
    assert result.usage.memory_peak_bytes is not None
    assert result.usage.memory_peak_bytes > 1_000_000
    assert result.phases.run_s > 0


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it_runs_on_both_event_loops(backend: str, workspace: Path) -> None:
    async def call() -> HostOutcome:
        return await run_on_host(bash_command("cat kept"), workspace=workspace, limits=Limits())

    assert anyio.run(call, backend=backend).result.stdout == b"as it was\n"


def test_a_signal_is_reported_as_such(run: Run) -> None:
    result = run("kill -TERM $$").result
    assert (result.status, result.exit_code, result.signal) == ("signalled", None, signal.SIGTERM)


def test_a_text_that_begins_with_a_dash_is_no_option(run: Run) -> None:
    assert run("--version").result.exit_code == 127


def test_a_program_is_found_in_the_system_only(workspace: Path) -> None:
    (workspace / "true").write_text("#!/bin/sh\necho planted\n", encoding="utf-8")
    (workspace / "true").chmod(0o755)
    assert _run(Command(("true",)), workspace).result.ok
    missing = _run(Command(("no-such-program",)), workspace).result
    assert (missing.status, missing.exit_code) == ("exited", 127)
    planted = _run(Command(("./true",)), workspace).result
    assert (planted.exit_code, planted.stdout) == (126, b"")


def test_arguments_arrive_as_they_are(workspace: Path) -> None:
    arguments = ("%s|", "", " ", "-n", "$(x)", "a\nb", "\udcff", "…")
    result = _run(Command(("/usr/bin/printf", *arguments)), workspace).result
    assert result.stdout == b"| |-n|$(x)|a\nb|\xff|\xe2\x80\xa6|"


def test_hostile_names_in_the_workspace_are_read(run: Run, workspace: Path) -> None:
    names = [b"-rf", b"a b", b"x\ny", b"\xff\xfe", b"$(touch pwned)", b"\x1b[31m", b"'\""]
    for name in names:
        Path(os.fsdecode(os.fsencode(workspace) + b"/" + name)).write_bytes(b"found ")
    outcome = run("cat -- *d* ./* 2>/dev/null | wc -c; ls | wc -l")
    assert outcome.denied == ()
    assert not (workspace / "pwned").exists()
    count = int(outcome.result.stdout.split()[0])
    assert count >= 6 * len(names)


@pytest.mark.parametrize(
    "name", ["with space", "comma,colon:", "quote'\"", "\udcff\udcfe", "new\nline"]
)
def test_a_workspace_may_have_any_name(name: str, workspace: Path) -> None:
    folder = workspace / name
    folder.mkdir(mode=0o755)
    (folder / "f").write_text("here", encoding="utf-8")
    result = _run(bash_command('cat f; cat "$PWD/f"'), folder).result
    assert result.stdout == b"herehere"


def test_a_script_that_is_too_long_for_an_argument_travels_by_descriptor(run: Run) -> None:
    text = "echo begin\n" + "# padding\n" * 30_000 + "echo end"
    assert run(text).result.stdout == b"begin\nend\n"
    # Just around the limit of an argument, counted in bytes.
    for size in (131_070, 131_071, 131_072):
        tail = "…" * ((size - 8) // 3)
        assert run(f"echo x #{tail}").result.stdout == b"x\n"


def test_the_script_cannot_be_changed_by_what_it_runs(run: Run) -> None:
    text = "echo x > /proc/$$/fd/3\necho x > /proc/self/fd/3; echo end\n" + "# padding\n" * 30_000
    assert run(text).result.stdout == b"end\n"


def test_stdin_is_empty_bytes_or_a_stream(workspace: Path) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 100_000

    count = ("/usr/bin/wc", "-c")
    assert _run(Command(count), workspace).result.stdout == b"0\n"
    assert _run(Command(count, stdin=b"y" * 3_000_000), workspace).result.stdout == b"3000000\n"
    assert _run(Command(count, stdin=pieces()), workspace).result.stdout == b"300000\n"
    assert _run(Command(("/usr/bin/true",), stdin=b"y" * 3_000_000), workspace).result.ok


def test_nothing_of_the_clients_environment_is_inherited(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    monkeypatch.setenv("BASH_ENV", "/nonexistent")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nonexistent")
    text = run("env; cat /proc/$$/environ").result.stdout_text
    assert "hidden" not in text
    assert "BASH_ENV" not in text
    assert "LD_LIBRARY_PATH" not in text
    assert "PATH=/usr/bin:/bin\n" in text


def test_only_tame_variables_may_be_added(workspace: Path) -> None:
    shown = _run(Command(("/usr/bin/env",), env={"TZ": "Asia/Tokyo", "PATH": "/tmp"}), workspace)
    assert b"TZ=Asia/Tokyo\n" in shown.result.stdout
    assert b"PATH=/usr/bin:/bin\n" in shown.result.stdout
    with pytest.raises(InvalidInput, match="LD_PRELOAD") as caught:
        _run(Command(("/usr/bin/env",), env={"LD_PRELOAD": "/tmp/x.so"}), workspace)
    assert [field.path for field in caught.value.fields] == ["env.LD_PRELOAD"]


def test_home_is_empty_and_tmpdir_is_writable_for_one_call_only(run: Run) -> None:
    text = "ls -A $HOME; echo x > $HOME/x || true; sort <<< x > $TMPDIR/y; ls $TMPDIR; echo $TMPDIR"
    first, second = run(text).result, run(text).result
    names = first.stdout_text.split()
    assert names[0] == "y"
    assert second.stdout_text.split()[0] == "y"
    assert names[1] != second.stdout_text.split()[1]
    assert not Path(names[1]).exists()


def test_a_large_here_document_works(run: Run) -> None:
    text = "wc -c <<'EOF'\n" + "x" * 100_000 + "\nEOF"
    outcome = run(text)
    assert outcome.result.stdout == b"100001\n"
    assert outcome.denied == ()


@pytest.mark.parametrize("cwd", ["folder", "./folder", "{workspace}/folder", "/workspace/folder"])
def test_a_directory_in_the_workspace_can_be_the_start(cwd: str, workspace: Path) -> None:
    command = Command(("/usr/bin/pwd",), cwd=cwd.format(workspace=workspace))
    assert _run(command, workspace).result.stdout_text == f"{workspace}/folder\n"


@pytest.mark.parametrize("cwd", ["..", "/", "/etc", "folder/../..", "missing", "kept", "out"])
def test_a_directory_outside_the_workspace_is_refused(cwd: str, workspace: Path) -> None:
    (workspace / "out").symlink_to("/etc")
    with pytest.raises(PathRefused):
        _run(Command(("/usr/bin/pwd",), cwd=cwd), workspace)


def test_a_workspace_that_is_not_there_is_refused(workspace: Path) -> None:
    for path in (workspace / "missing", workspace / "kept"):
        with pytest.raises(InvalidWorkspace):
            _run(Command(("/usr/bin/true",)), path)


def test_the_wall_limit_ends_the_call_with_the_output_so_far(run: Run) -> None:
    # Long enough for a first word on a machine that is busy with other tests.
    result = run("trap '' TERM HUP INT; echo hi; sleep 600", limits=Limits(wall_s=10)).result
    assert (result.status, result.exit_code, result.signal) == ("timeout", None, None)
    assert result.stdout == b"hi\n"
    assert result.limits_hit == {"wall"}


def test_the_idle_limit_counts_from_the_last_output(run: Run) -> None:
    # Each pause is far below the limit, which a busy machine does not reach then; their sum is not.
    text = "for i in 1 2 3 4 5 6; do echo $i; sleep 2; done; sleep 600"
    result = run(text, limits=Limits(wall_s=120, idle_s=10)).result
    assert result.status == "idle_timeout"
    assert result.stdout == b"1\n2\n3\n4\n5\n6\n"
    assert result.limits_hit == {"idle"}


def test_output_without_end_and_without_a_newline_is_cut_and_ended(run: Run) -> None:
    limits = Limits(wall_s=120, output_total_bytes=8 << 20, output_kept_bytes=1000)
    result = run("exec cat /dev/zero", limits=limits).result
    assert result.status == "output_limit"
    assert result.limits_hit >= {"output", "output_kept"}
    assert result.truncated
    assert len(result.stdout) < 1200
    assert result.stdout_bytes > 8 << 20


@pytest.mark.timeout(900)
def test_a_gibibyte_without_a_newline_passes_through_bounded_memory(run: Run) -> None:
    limits = Limits(wall_s=800, output_total_bytes=2 << 30, output_kept_bytes=4096)
    result = run("head -c 1073741824 /dev/zero; echo end >&2", limits=limits).result
    assert result.ok
    assert result.stdout_bytes == 1 << 30
    assert len(result.stdout) < 8192
    assert result.stderr == b"end\n"


def test_the_last_words_of_a_quick_end_are_never_lost(run: Run) -> None:
    for number in range(30):
        assert run(f"echo first; echo last {number} >&2; kill -9 $$").result.stderr_text == (
            f"last {number}\n"
        )


def test_output_is_whole_however_late_the_client_gets_to_read_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr("sandboxed_tools.host.call.HostCall._pump", never)
    monkeypatch.setattr("sandboxed_tools.host.call._DRAIN_S", 0.0)
    result = run("head -c 50000 /dev/zero; echo last words >&2").result
    assert (result.stdout_bytes, result.stderr) == (50_000, b"last words\n")


def test_live_output_reaches_the_sink_in_order_and_may_fail(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may keep the sink's thread from its turn for over the usual second.
    monkeypatch.setattr("sandboxed_tools.host.live._DRAIN_S", 60.0)
    seen: list[bytes] = []
    result = run(
        "for i in 1 2 3; do echo $i; done", on_output=lambda _stream, data: seen.append(data)
    ).result
    assert b"".join(seen) == b"1\n2\n3\n"
    assert result.warnings == ()

    def broken(_stream: str, _data: bytes) -> None:
        raise ValueError("sink")

    result = run("echo one; echo two", on_output=broken).result
    assert result.stdout == b"one\ntwo\n"
    assert "ValueError: sink" in result.warnings[0]


def test_limits_of_each_process_hold(run: Run) -> None:
    limits = Limits.of(wall_s=120, open_files=64, memory_bytes="64m", tmp_bytes="1m")
    shown = run("ulimit -n; ulimit -c; ulimit -d; ulimit -f", limits=limits).result.stdout.split()
    assert shown == [b"64", b"0", b"65536", b"1024"]
    too_large = run("head -c 2000000 /dev/zero > $TMPDIR/x", limits=limits).result
    assert too_large.exit_code == 128 + signal.SIGXFSZ
    hungry = run("x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#x}", limits=limits).result
    assert not hungry.ok
    assert hungry.stdout == b""


def test_a_crowd_of_processes_is_refused(run: Run) -> None:
    require_system_python()
    # The kernel counts those of other calls, which may end meanwhile: far more than all of them.
    crowd = """import os, signal
for count in range(2000):
    try:
        if not os.fork(): signal.pause()
    except BlockingIOError:
        print("refused"); break
"""
    outcome = run(f"exec {PYTHON} -I -c '{crowd}'", limits=Limits(wall_s=120, pids=8))
    assert outcome.result.stdout == b"refused\n"


def test_what_was_refused_is_reported_and_what_is_allowed_is_not(run: Run, workspace: Path) -> None:
    outcome = run("touch new; rm kept; chmod 600 kept; exit 1")
    calls = {(denial.call, denial.path) for denial in outcome.denied}
    assert ("openat", f"{workspace}/new") in calls
    assert ("unlinkat", f"{workspace}/kept") in calls
    assert ("fchmodat", f"{workspace}/kept") in calls
    assert outcome.perhaps_denied
    harmless = run("echo x > /dev/null; sort <<< x > $TMPDIR/x; rm $TMPDIR/x; id; ls -l / | cat")
    assert harmless.denied == ()
    assert not harmless.perhaps_denied


def test_paths_of_attempts_are_shown_where_they_lead(run: Run, workspace: Path) -> None:
    outcome = run("cd folder; : > ../../x; : > $TMPDIR/../home/x; : > $'a\\nb'; :> /dev/./null")
    paths = {denial.path for denial in outcome.denied}
    assert f"{workspace.parent}/x" in paths
    assert f"{workspace}/folder/a\nb" in paths
    assert any(path is not None and path.endswith("/home/x") for path in paths)
    assert not any(path is not None and "null" in path for path in paths)


def test_a_flood_of_refusals_is_bounded_and_harmless(run: Run) -> None:
    outcome = run("for ((i = 0; i < 2000; i++)); do : > new$i; done 2>/dev/null; echo end")
    assert outcome.result.stdout == b"end\n"
    assert 1 <= len(outcome.denied) <= 64


def test_text_of_the_program_is_only_a_hint(run: Run) -> None:
    outcome = run("echo 'x: Permission denied' >&2; exit 1")
    assert outcome.denied == ()
    assert outcome.perhaps_denied
    assert outcome.result.status == "exited"
    assert not run("echo 'x: Permission denied' >&2").perhaps_denied


def test_no_command_runs_where_the_gate_is_absent(
    run: Run, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "landlock_abi", lambda: 0)
    gate._found.cache_clear()
    try:
        assert not gate.gate_status().available
        with pytest.raises(SandboxUnavailable) as caught:
            run(f"echo ran > {workspace}/new")
        assert "Landlock" in str(caught.value.operator_detail)
    finally:
        monkeypatch.undo()
        gate._found.cache_clear()
    assert gate.gate_status().available
