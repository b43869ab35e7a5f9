"""Every attempt fails in the gate, and its twin succeeds for the same user without it."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.host.attacker import PYTHON, Run, command_user, require_system_python
from tests.host.scratch_tree import snapshot

PRELUDE = """
import ctypes, fcntl, os, resource, shutil, signal, socket, struct, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result
outsider, tcp, udp, unix, abstract, secret = sys.argv[1:]
outsider, tcp, udp = int(outsider), int(tcp), int(udp)
"""

ATTEMPTS = {
    "create": "open('new', 'w')",
    "append": "open('kept', 'a')",
    "open_for_reading_and_writing": "os.open('kept', os.O_RDWR)",
    "truncate": "os.truncate('kept', 0)",
    "truncate_by_a_reading_descriptor": "os.open('kept', os.O_RDONLY | os.O_TRUNC)",
    "unnamed_file": "os.open('.', os.O_TMPFILE | os.O_RDWR)",
    "chmod": "os.chmod('kept', 0o777)",
    "fchmod_by_a_reading_descriptor": "os.fchmod(os.open('kept', os.O_RDONLY), 0o777)",
    "set_user_id_bit": "os.chmod('kept', 0o4755)",
    "chown": "os.chown('kept', os.getuid(), os.getgid())",
    "utime": "os.utime('kept')",
    "utime_by_a_reading_descriptor": "os.utime(os.open('kept', os.O_RDONLY), (1, 1))",
    "symlink": "os.symlink('kept', 'new')",
    "link": "os.link('kept', 'new')",
    "rename": "os.rename('kept', 'new')",
    "unlink": "os.unlink('kept')",
    "mkdir": "os.mkdir('new')",
    "rmdir": "os.rmdir('folder')",
    "fifo": "os.mkfifo('new')",
    "plain_node": "os.mknod('new')",
    "attribute": "os.setxattr('kept', 'user.x', b'1')",
    "attribute_by_a_reading_descriptor": "os.setxattr(os.open('kept', 0), 'user.x', b'1')",
    "file_flags_by_ioctl": "fcntl.ioctl(os.open('kept', 0), 0x40086602, struct.pack('l', 0x40))",
    "lease": "fcntl.fcntl(os.open('kept', 0), fcntl.F_SETLEASE, fcntl.F_RDLCK)",
    "folder_notification": "fcntl.fcntl(os.open('.', 0), fcntl.F_NOTIFY, 2)",
    "inotify": "checked(libc.inotify_init1(0))",
    "unix_socket_file": "socket.socket(socket.AF_UNIX).bind('new')",
    "unix_stream": "socket.socket(socket.AF_UNIX).connect(unix)",
    "unix_datagram": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "abstract_socket": "socket.socket(socket.AF_UNIX).connect(chr(0) + abstract)",
    "tcp": "socket.create_connection(('127.0.0.1', tcp), 5)",
    "tcp_listener": "socket.create_server(('127.0.0.1', 0))",
    "udp": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', udp))",
    "udp_over_ipv6": "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
    "netlink_other_than_route": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)",
    "signal": "os.kill(outsider, 0)",
    "signal_by_pidfd": "signal.pidfd_send_signal(os.pidfd_open(outsider), 0)",
    "priority_of_another": "os.setpriority(os.PRIO_PROCESS, outsider, 5)",
    # Of a user who has no processes: those of the twin's own are other tests' as well.
    "priority_of_a_user": (
        "try: os.setpriority(os.PRIO_USER, 2_000_000_000, 1)\nexcept ProcessLookupError: pass"
    ),
    "affinity_of_another": "os.sched_setaffinity(outsider, {0})",
    "limits_of_another": "resource.prlimit(outsider, resource.RLIMIT_CORE, (0, 0))",
    "ptrace": "checked(libc.ptrace(16, outsider, 0, 0))",
    "memory_of_another": "open(f'/proc/{outsider}/mem', 'rb')",
    "environment_of_another": "open(f'/proc/{outsider}/environ', 'rb').read()",
    "descriptors_of_another": "os.readlink(f'/proc/{outsider}/fd/0')",
    "folder_of_another": "os.readlink(f'/proc/{outsider}/cwd')",
    "file_through_another": "open(f'/proc/{outsider}/root/etc/passwd').read()",
    "shared_memory": "checked(libc.shmctl(checked(libc.shmget(0, 4096, 0o1600)), 0, 0))",
    "message_queue": "checked(libc.msgctl(checked(libc.msgget(0, 0o1600)), 0, 0))",
    "shared_memory_file": "os.unlink(shutil.copy('kept', f'/dev/shm/{os.getpid()}'))",
    "file_in_tmp": "os.unlink(shutil.copy('kept', f'/tmp/{os.getpid()}'))",
    "anonymous_file": "os.memfd_create('x')",
    "anonymous_shared_memory": "__import__('mmap').mmap(-1, 4096)",
    "user_namespace": "checked(libc.unshare(0x10000000))",
    "personality": "checked(libc.personality(0x0040000))",
    "secret_outside": "open(secret).read()",
    "secret_by_a_link": "open('link').read()",
    "secret_by_parent_folders": "open('../' * 20 + secret).read()",
    "secret_by_the_process_folder": "open('/proc/self/root' + secret).read()",
    "list_a_folder_outside": "os.listdir(os.path.dirname(secret))",
    "list_etc": "os.listdir('/etc')",
    "list_run": "os.listdir('/run')",
    "execute_from_the_workspace": "subprocess.run(['./tool'], check=True)",
    "execute_by_a_link": "subprocess.run(['./tool-link'], check=True)",
    "execute_from_tmpdir": (
        "subprocess.run([shutil.copy('/usr/bin/true', os.environ['TMPDIR'])], check=True)"
    ),
}

NEEDS_MORE_THAN_A_USER = {
    "kernel_crypto_socket": "socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)",
    "shadow": "open('/etc/shadow').read()",
    "home_of_root": "os.listdir('/root')",
    "environment_of_init": "open('/proc/1/environ').read()",
    "kernel_memory": "open('/proc/kcore', 'rb').read(1)",
    "kernel_messages": "open('/dev/kmsg').read(1)",
    "debug_files": "os.listdir('/sys/kernel/debug')",
    "firmware": "os.listdir('/sys/firmware')",
    "disk": "open('/dev/vda', 'rb').read(1)",
    "device_node": "os.mknod('new', 0o20600, os.makedev(1, 3))",
    "mount": "checked(libc.mount(b'none', b'folder', b'tmpfs', 0, None))",
    "chroot": "os.chroot('folder')",
    "host_name": "socket.sethostname('changed')",
    "clock": "__import__('time').clock_settime(0, 0)",
    "file_by_handle": "checked(libc.open_by_handle_at(3, bytes(64), 0))",
    "io_uring": "checked(libc.syscall(425, 1, ctypes.create_string_buffer(120)))",
    "kernel_setting": "open('/proc/sys/kernel/hostname', 'w')",
    "own_oom_score": "open('/proc/self/oom_score_adj', 'w')",
    "cgroup": "open('/sys/fs/cgroup/cgroup.procs', 'w')",
    "signal_to_everybody": "os.kill(outsider, 15)",
}


@dataclass(frozen=True, slots=True)
class Outside:
    """Things outside the gate that an attempt tries to reach."""

    folder: Path
    arguments: tuple[str, ...]


@pytest.fixture
def outside(workspace: Path, outsider: int) -> Iterator[Outside]:
    folder = Path(tempfile.mkdtemp(prefix="host-outside-"))
    name = f"sandboxed-tools-test-{os.getpid()}"
    try:
        folder.chmod(0o755)
        (folder / "secret").write_text("secret", encoding="utf-8")
        (workspace / "link").symlink_to(folder / "secret")
        tool = workspace / "tool"
        tool.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
        tool.chmod(0o755)
        (workspace / "tool-link").symlink_to("tool")
        with (
            socket.create_server(("127.0.0.1", 0)) as tcp,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
            socket.socket(socket.AF_UNIX) as unix,
            socket.socket(socket.AF_UNIX) as abstract,
        ):
            udp.bind(("127.0.0.1", 0))
            unix.bind(str(folder / "socket"))
            (folder / "socket").chmod(0o777)
            unix.listen()
            abstract.bind(f"\0{name}")
            abstract.listen()
            ports = (str(tcp.getsockname()[1]), str(udp.getsockname()[1]))
            paths = (str(folder / "socket"), name, str(folder / "secret"))
            yield Outside(folder, (str(outsider), *ports, *paths))
    finally:
        subprocess.run(["rm", "-rf", "--", folder], check=True, timeout=60)


def _write_program(workspace: Path, attempt: str) -> None:
    (workspace / "attempt.py").write_text(PRELUDE + attempt + "\n", encoding="utf-8")


def _without_gate(workspace: Path, outside: Outside) -> subprocess.CompletedProcess[bytes]:
    temporary = outside.folder / "tmp"
    temporary.mkdir()
    if os.geteuid() == 0:
        os.chown(temporary, 65534, 65534)
    return subprocess.run(
        [PYTHON, "-I", "attempt.py", *outside.arguments],
        cwd=workspace,
        env={"TMPDIR": str(temporary), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        timeout=120,
        check=False,
        **command_user(),
    )


@pytest.mark.parametrize("name", ATTEMPTS)
def test_an_attempt_fails_in_the_gate_and_works_without_it(
    name: str, run: Run, workspace: Path, outside: Outside
) -> None:
    require_system_python()
    _write_program(workspace, ATTEMPTS[name])
    before = snapshot(workspace)
    outcome = run(f"exec {PYTHON} -I attempt.py {' '.join(outside.arguments)}")
    assert outcome.result.status == "exited"
    assert outcome.result.exit_code == 1, outcome
    assert b"Error" in outcome.result.stderr
    assert b"SyntaxError" not in outcome.result.stderr
    assert b"NameError" not in outcome.result.stderr
    assert snapshot(workspace) == before

    twin = _without_gate(workspace, outside)
    assert twin.returncode == 0, twin.stderr.decode()


@pytest.mark.parametrize("name", NEEDS_MORE_THAN_A_USER)
def test_an_attempt_on_the_system_fails(
    name: str, run: Run, workspace: Path, outside: Outside
) -> None:
    require_system_python()
    _write_program(workspace, NEEDS_MORE_THAN_A_USER[name])
    before = snapshot(workspace)
    outcome = run(f"exec {PYTHON} -I attempt.py {' '.join(outside.arguments)}")
    assert outcome.result.exit_code == 1, outcome
    assert b"Error" in outcome.result.stderr
    assert snapshot(workspace) == before
    assert platform.node() != "changed"


def test_the_harmless_twin_of_all_attempts_works_in_the_gate(
    run: Run, workspace: Path, outside: Outside
) -> None:
    require_system_python()
    _write_program(
        workspace,
        "assert open('kept').read() and os.listdir('.') and open('/etc/passwd').read()\n"
        "open(os.environ['TMPDIR'] + '/x', 'w').write('x')\n"
        "open('/dev/null', 'w').write('x')\n"
        "subprocess.run(['/usr/bin/true'], check=True)\n"
        "os.kill(os.getppid(), 0) if False else os.kill(os.getpid(), 0)",
    )
    outcome = run(f"exec {PYTHON} -I attempt.py {' '.join(outside.arguments)}")
    assert outcome.result.ok, outcome
    assert outcome.denied == ()


def test_the_command_has_no_capability_that_could_change_anything(run: Run) -> None:
    lines = dict(
        line.split(":\t", 1)
        for line in run("cat /proc/self/status").result.stdout_text.split("\n")
        if ":\t" in line
    )
    allowed = (1 << 2) if os.geteuid() == 0 else 0
    for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(lines[kind], 16) & ~allowed == 0
    assert lines["NoNewPrivs"] == "1"
    assert lines["Seccomp"] == "2"
    if os.geteuid() == 0:
        assert int(lines["CapBnd"], 16) == 0
        assert lines["Uid"].split() == ["65534"] * 4
        assert lines["Gid"].split() == ["65534"] * 4
        assert lines["Groups"].strip() == ""


def test_a_read_root_can_be_read_and_not_written(run: Run, outside: Outside) -> None:
    text = f"cat {outside.folder}/secret; echo x > {outside.folder}/new"
    outcome = run(text, read_roots=(outside.folder,))
    assert outcome.result.stdout == b"secret"
    assert not (outside.folder / "new").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files that nobody may read")
def test_a_root_client_reads_its_private_workspace_and_nothing_else_of_its_own(
    run: Run, workspace: Path, outside: Outside
) -> None:
    for path in (workspace / "kept", outside.folder / "secret"):
        os.chown(path, 0, 0)
        path.chmod(0o600)
    os.chown(workspace, 0, 0)
    workspace.chmod(0o700)
    outcome = run(f"cat kept; cat {outside.folder}/secret")
    assert outcome.result.stdout == b"as it was\n"
    assert outcome.perhaps_denied


def test_a_descriptor_of_the_client_is_not_inherited(run: Run, outside: Outside) -> None:
    secret = os.open(outside.folder / "secret", os.O_RDONLY)
    try:
        os.set_inheritable(secret, True)
        outcome = run(f"ls -l /proc/self/fd; cat <&{secret}")
    finally:
        os.close(secret)
    assert b"secret" not in outcome.result.stdout
    assert not outcome.result.ok
