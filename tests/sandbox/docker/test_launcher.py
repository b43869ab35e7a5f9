"""What a hostile command does to the launcher that watches it: nothing."""

from __future__ import annotations

import textwrap

import pytest
from tests.sandbox.docker.running import Run

pytestmark = pytest.mark.engine


def python(text: str) -> tuple[str, ...]:
    return ("python3", "-c", textwrap.dedent(text))


def test_launcher_is_process_1_and_cannot_be_read(run: Run) -> None:
    result = run(
        "cat /proc/1/comm; stat -c '%a %u' /.sandboxed-tools/launcher;"
        "for d in /proc/1 /proc/1/task/1; do cd $d;"
        "for f in mem maps smaps pagemap numa_maps environ auxv stack syscall personality io; do"
        " head -c1 $f && echo READ $f; done;"
        "for f in fd fdinfo map_files ns cwd/ root/; do ls $f && echo LISTED $f; done; done;"
        "readlink /proc/1/exe && echo LINKED; head -c1 /.sandboxed-tools/launcher"
    )
    assert result.stdout == b"launcher\n111 0\n"
    assert result.exit_code == 1


def test_launcher_cannot_be_traced_or_opened(run: Run) -> None:
    result = run(
        python("""
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        def call(name, *numbers):
            ctypes.set_errno(0)
            done = libc.syscall(*map(ctypes.c_long, numbers))
            print(name, done if done >= 0 else "refused")
        call("ptrace attach", 101, 16, 1, 0, 0)
        call("ptrace seize", 101, 0x4206, 1, 0, 0)
        class Piece(ctypes.Structure):
            _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
        room = ctypes.create_string_buffer(16)
        here = Piece(ctypes.addressof(room), 16)
        there = Piece(0x400000, 16)  # where a program without relocation begins
        ctypes.set_errno(0)
        for name, number in ("process_vm_readv", 310), ("process_vm_writev", 311):
            done = libc.syscall(number, 1, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
            print(name, done if done >= 0 else "refused")
        call("kcmp", 312, os.getpid(), 1, 0, 0, 0)
        pidfd = libc.syscall(434, 1, 0)
        print("pidfd_getfd", "refused" if libc.syscall(438, pidfd, 0, 0) < 0 else "DONE")
        """)
    )
    lines = result.stdout.decode().splitlines()
    assert [line for line in lines if not line.endswith("refused")] == []
    assert len(lines) == 6


def test_every_signal_to_the_launcher_is_without_effect(run: Run) -> None:
    result = run("for s in $(seq 1 64); do kill -$s 1 2>/dev/null; done; echo alive; exit 9")
    assert (result.status, result.exit_code, result.stdout) == ("exited", 9, b"alive\n")


def test_storm_of_signals_delays_nothing_for_good(run: Run) -> None:
    result = run(
        "for i in 1 2 3; do (while :; do kill -CHLD 1; kill -USR1 1; done) & done; sleep 1"
    )
    assert (result.status, result.exit_code) == ("exited", 0)


def test_killing_everything_ends_the_command_and_leaves_the_report(run: Run) -> None:
    result = run("sleep 100 & sleep 100 & python3 -c 'import os; os.kill(-1, 9)'; exit 3")
    assert (result.status, result.signal) == ("signalled", 9)


def test_bomb_that_a_command_leaves_behind_does_not_survive_its_exit(run: Run) -> None:
    result = run(
        python("""
        import os, signal, time
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        if os.fork():
            time.sleep(0.5)
            os._exit(7)
        while True:
            try:
                os.fork()
                os.kill(1, 17)
            except OSError:
                pass
        """)
    )
    assert (result.status, result.exit_code) == ("exited", 7)
    assert "pids" in result.limits_hit


@pytest.mark.parametrize(
    "text",
    [
        r"printf '\035%064d00000040why exit\nexit 0\n' 0; exit 3",
        r"for i in $(seq 2000); do printf '\035'; printf '\035%032d' $i >&2; done; exit 3",
        "head -c 1000000 /dev/urandom; head -c 1000000 /dev/urandom >&2; exit 3",
    ],
)
def test_printed_marks_forge_nothing(run: Run, text: str) -> None:
    result = run(text)
    assert (result.status, result.exit_code) == ("exited", 3)


def test_printed_marks_reach_the_caller_as_they_were_printed(run: Run) -> None:
    result = run(r"printf '\035%032d\035' 7; printf 'end\035'")
    assert result.stdout == b"\x1d" + b"%032d" % 7 + b"\x1dend\x1d"


def test_pipes_that_are_read_back_give_no_secret_away(run: Run) -> None:
    # The pipes of stdout and stderr can be opened for reading by their owner.
    result = run(
        python("""
        import os, sys, time
        fds = [os.open(f"/proc/self/fd/{n}", os.O_RDONLY | os.O_NONBLOCK) for n in (1, 2)]
        data = b""
        if os.fork():
            time.sleep(0.3)
            os._exit(7)
        os.setsid()
        while True:
            for fd in fds:
                try:
                    data += os.read(fd, 65536)
                except BlockingIOError:
                    pass
            if data:
                os.write(1, b"STOLEN" + data)
        """)
    )
    assert (result.status, result.exit_code) == ("exited", 7)
    assert b"why" not in result.stdout


def test_shared_pipes_set_to_nonblocking_lose_no_report(run: Run) -> None:
    result = run(
        python("""
        import os
        for fd in (1, 2):
            os.set_blocking(fd, False)
        for fd in (1, 2):
            try:
                while True:
                    os.write(fd, b"x" * 65536)
            except BlockingIOError:
                pass
        os._exit(5)
        """)
    )
    assert (result.status, result.exit_code) == ("exited", 5)


def test_limits_put_on_the_launcher_hide_no_figures(run: Run) -> None:
    result = run(
        python("""
        import resource
        for what in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_AS):
            try:
                resource.prlimit(1, what, (0, 0))
            except PermissionError:
                pass
        for _ in range(20_000_000):
            pass
        """)
    )
    assert (result.status, result.exit_code) == ("exited", 0)
    assert result.usage.cpu_s is not None
    assert result.usage.cpu_s > 0.1


def test_launcher_starved_by_its_own_command_still_ends_it_in_time(run: Run) -> None:
    # The same UID may give process 1 the idle class and the lowest priority, unless a filter
    # forbids it, and then spin.
    result = run(
        python("""
        import os
        try:
            os.setpriority(os.PRIO_PROCESS, 1, 19)
        except PermissionError:
            pass
        try:
            os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))
        except PermissionError:
            pass
        while True:
            try:
                if os.fork() == 0:
                    break
            except OSError:
                break
        while True:
            pass
        """),
        wall_s=1,
        cpus=0.5,
    )
    assert result.status == "timeout"
    assert result.phases.run_s < 11


def test_command_has_no_rights_and_one_filter(run: Run) -> None:
    result = run("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; id -u")
    *lines, uid = result.stdout.decode().split("\n")[:-1]
    values = dict(line.split(":\t") for line in lines)
    assert {value for name, value in values.items() if name.startswith("Cap")} == {"0" * 16}
    assert (values["NoNewPrivs"], values["Seccomp"]) == ("1", "2")
    assert int(uid) != 0


def test_nothing_but_tmp_and_shared_memory_can_be_written(run: Run) -> None:
    result = run(
        "for d in / /etc /usr /var /var/tmp /run /home /root /opt /srv /.sandboxed-tools /dev "
        "/sys /sys/fs/cgroup /proc/sys; do touch $d/x 2>/dev/null && echo WROTE $d; done;"
        "touch /tmp/x /dev/shm/x && echo fine"
    )
    assert result.stdout == b"fine\n"


def test_host_is_not_shown_through_proc_and_sys(run: Run) -> None:
    result = run(
        "for f in /proc/{cmdline,kcore,keys,kallsyms,interrupts,diskstats,partitions,modules,"
        "timer_list,sched_debug,slabinfo,config.gz} /sys/kernel/* /sys/class/dmi/* /sys/block/*;"
        "do head -c1 $f 2>/dev/null | grep -q . && echo SHOWN $f; done; echo done"
    )
    assert result.stdout == b"done\n"


def test_two_calls_share_no_user(run: Run) -> None:
    import os

    uids = {run("id -u").stdout for _ in range(3)}
    assert len(uids) == (3 if os.geteuid() == 0 else 1)
