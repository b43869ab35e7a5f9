"""The seccomp profile closes what it claims to close, and everyday work goes on under it."""

from __future__ import annotations

import json
import platform
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandboxed_tools.sandbox.docker.seccomp import profile, profile_json

if TYPE_CHECKING:
    import docker

    from sandboxed_tools.sandbox.docker.engine import Engine

PROBE = Path(__file__).with_name("seccomp_probe.py")
TOOLCHAINS = ("/usr", "/etc/alternatives", "/etc/java-17-openjdk")
X86 = platform.machine() == "x86_64"
needs_x86 = pytest.mark.skipif(not X86, reason="calls of x86 processors")

STAYS_OPEN = (
    "socket unix",
    "socket tcp",
    "socket tcp by default",
    "socket udp",
    "socket netlink route",
    "socketpair",
    "clone plain",
    "personality query",
    "mknod regular",
    "mknod fifo",
    "mknod socket",
    "nice",
    "idle class",
    "idle input and output",
    "limit oneself",
    "ask for the limits of process 1",
)
LOOKS_ABSENT = (
    "clone3 plain",
    "clone3 NEWUSER",
    "io_uring_setup",
    "io_setup",
    "vmsplice",
    "memfd_secret",
)
HURTS_PROCESS_1 = (
    "nice process 1",
    "nice the whole group",
    "nice the whole user",
    "idle class of process 1",
    "idle class of process 1 by attributes",
    "idle input and output of process 1",
    "limit processor time of process 1",
    "limit open files of process 1",
)
IS_REFUSED = (
    *HURTS_PROCESS_1,
    "socket icmp datagram",
    "socket icmp6 datagram",
    "socket raw",
    "socket sctp by default",
    "socket mptcp",
    "socket udp-lite",
    "socket packet",
    "socket alg",
    "socket vsock",
    "socket xdp",
    "personality no randomization",
    "mknod whiteout",
    "mknod null",
    "mknod block",
    "ptrace child",
    "ptrace traceme",
    "process_vm_readv",
    "process_madvise",
    "pidfd_getfd",
    "kcmp",
    "keyctl",
    "add_key",
    "request_key",
    "userfaultfd user mode",
    "bpf",
    "perf_event_open",
    "name_to_handle_at",
    "open_by_handle_at",
    "fanotify_init",
    "mount",
    "umount2",
    "fsopen",
    "open_tree",
    "move_mount",
    "mount_setattr",
    "pivot_root",
    "chroot",
    "setns",
    "kexec_load",
    "init_module",
    "syslog",
    "acct",
    "swapon",
    "quotactl",
    "clock_settime",
    "settimeofday",
    "sethostname",
    "reboot",
    *(f"clone NEW{kind}" for kind in ("NS", "CGROUP", "UTS", "IPC", "USER", "PID", "NET")),
    *(f"unshare NEW{kind}" for kind in ("NS", "CGROUP", "UTS", "IPC", "USER", "PID", "NET")),
)
# What the same probes must achieve with no filter, or they would prove nothing.
HAS_TEETH = (
    *HURTS_PROCESS_1,
    "socket icmp datagram",
    "socket udp-lite",
    "clone3 plain",
    "io_uring_setup",
    "io_setup",
    "vmsplice",
    "ptrace child",
    "ptrace traceme",
    "process_vm_readv",
    "pidfd_getfd",
    "keyctl",
    "add_key",
    "userfaultfd user mode",
    "name_to_handle_at",
    "personality no randomization",
    "mknod whiteout",
    "unshare NEWUSER",
)


class Trial:
    """Runs an argument vector in a container that has the profile and is removed again."""

    def __init__(self, api: docker.APIClient, image: str) -> None:
        self._api = api
        self._image = image

    def run(
        self,
        *argv: str,
        seccomp: str,
        binds: Mapping[str, Mapping[str, str]] | None = None,
        env: dict[str, str] | None = None,
    ) -> tuple[int, str]:
        host = self._api.create_host_config(
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true", f"seccomp={seccomp}"],
            read_only=True,
            network_mode="none",
            tmpfs={"/tmp": "rw,exec,nosuid,nodev,size=256m,mode=1777"},
            mem_limit="1g",
            pids_limit=256,
            binds=dict(binds or {}),
        )
        made = self._api.create_container(
            self._image,
            list(argv),
            host_config=host,
            user="54321:54321",
            environment={"HOME": "/tmp", "PATH": "/usr/local/bin:/usr/bin:/bin", **(env or {})},
            entrypoint=[],
        )
        try:
            self._api.start(made)
            ended = self._api.wait(made, timeout=120)
            output = self._api.logs(made, stdout=True, stderr=True)
            return int(ended["StatusCode"]), output.decode("utf-8", "replace")
        finally:
            self._api.remove_container(made, force=True, v=True)

    def probe(self, *, seccomp: str) -> dict[str, str]:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, "probe.py")
            copy.write_bytes(PROBE.read_bytes())
            Path(folder).chmod(0o755)
            status, output = self.run(
                "python3",
                "/probe/probe.py",
                seccomp=seccomp,
                binds={folder: {"bind": "/probe", "mode": "ro"}},
            )
        assert status == 0, output
        outcomes: dict[str, str] = json.loads(output)
        return outcomes


@pytest.fixture(scope="module")
def trial(engine: Engine, base_image: str) -> Iterator[Trial]:
    from sandboxed_tools.sandbox.docker.images import resolve_image

    client = engine.api()
    try:
        yield Trial(client, resolve_image(client, base_image).id)
    finally:
        client.close()


@pytest.fixture(scope="module")
def filtered(trial: Trial) -> dict[str, str]:
    return trial.probe(seccomp=profile_json())


@pytest.fixture(scope="module")
def unfiltered(trial: Trial) -> dict[str, str]:
    return trial.probe(seccomp="unconfined")


@pytest.mark.engine
@pytest.mark.parametrize("name", STAYS_OPEN)
def test_ordinary_call_is_allowed(filtered: dict[str, str], name: str) -> None:
    assert filtered[name] == "OK"


@pytest.mark.engine
@pytest.mark.parametrize("name", IS_REFUSED)
def test_dangerous_call_is_refused(filtered: dict[str, str], name: str) -> None:
    assert filtered[name] == "EPERM"


@pytest.mark.engine
@pytest.mark.parametrize("name", LOOKS_ABSENT)
def test_call_with_an_older_way_looks_absent(filtered: dict[str, str], name: str) -> None:
    assert filtered[name] == "ENOSYS"


@needs_x86
@pytest.mark.engine
@pytest.mark.parametrize("name", ["int80 getpid", "int80 socketcall vsock", "x32 getpid"])
def test_call_from_a_foreign_architecture_ends_the_process(
    filtered: dict[str, str], name: str
) -> None:
    assert filtered[name] == "SIG31"


@needs_x86
@pytest.mark.engine
@pytest.mark.parametrize("name", ["modify_ldt", "iopl"])
def test_x86_relic_is_refused(filtered: dict[str, str], name: str) -> None:
    assert filtered[name] == "EPERM"


@pytest.mark.engine
@pytest.mark.parametrize("name", [*HAS_TEETH, *(["int80 getpid", "modify_ldt"] if X86 else [])])
def test_probe_succeeds_without_the_profile(unfiltered: dict[str, str], name: str) -> None:
    if unfiltered[name] in {"ENOSYS", "EPROTONOSUPPORT", "EACCES"}:
        pytest.skip(f"this kernel lacks or restricts it: {unfiltered[name]}")
    assert unfiltered[name] == "OK"


WORKLOADS = {
    "pipes and job control": "seq 1000 | sort -rn | head -1; sleep 5 & kill %1; wait; echo done",
    "tail follows a file": "echo x > /tmp/f; timeout 1 tail -f /tmp/f || echo done",
    "flock": "flock /tmp/lock -c 'echo done'",
    "git": "cd /tmp && git init -q r && cd r && echo a > a && git add a && git -c user.name=a "
    "-c user.email=a@b commit -qm m && git gc -q && git fsck && git log --oneline && echo done",
    "tar and gzip": "cd /tmp && cp -a /etc/alternatives e; tar czf e.tgz e && tar xzf e.tgz && "
    "echo done",
    "copying with attributes": "cp -a --reflink=auto --sparse=always /bin/bash /tmp/b && "
    "cmp /bin/bash /tmp/b && echo done",
    "python threads": 'python3 -c "import threading as t;x=[t.Thread(target=print) for _ in '
    "range(20)];[i.start() for i in x];[i.join() for i in x];print('done')\"",
    "python multiprocessing": 'printf \'import multiprocessing as m\\nif __name__ == "__main__":\\n'
    ' for w in ("fork", "spawn", "forkserver"):\\n'
    '  with m.get_context(w).Pool(2) as p: assert p.map(abs, [-1, -2]) == [1, 2]\\n print("done")'
    "' > /tmp/m.py && python3 /tmp/m.py",
    "python asyncio processes": 'python3 -c "import asyncio as a\nasync def m():\n p = await '
    "a.create_subprocess_exec('echo', 'done'); await p.wait()\na.run(m())\"",
    "python sqlite in WAL mode": "python3 -c \"import sqlite3;c=sqlite3.connect('/tmp/d');c.execute"
    "('pragma journal_mode=wal');c.execute('create table t(a)');c.commit();print('done')\"",
    "python sockets on loopback": "python3 -c \"import socket;s=socket.create_server(('127.0.0.1',"
    "0));c=socket.create_connection(s.getsockname());s.accept()[0].sendall(b'done');"
    'print(c.recv(9))"',
    "python shared memory": 'python3 -c "from multiprocessing.shared_memory import SharedMemory as '
    "S;s=S(create=True,size=99);s.close();s.unlink();print('done')\"",
    "dynamic tables of names": "getent passwd root; id; date; echo done",
}


@pytest.mark.engine
@pytest.mark.parametrize("name", WORKLOADS)
def test_everyday_work_goes_on(trial: Trial, name: str) -> None:
    status, output = trial.run("bash", "-ec", WORKLOADS[name], seccomp=profile_json())
    assert status == 0, output
    assert "done" in output


TOOLCHAIN_WORK = {
    "gcc": "cd /tmp; echo 'int main(void){return 0;}' > a.c; gcc -O2 -pthread a.c && ./a.out",
    "make": "cd /tmp; printf 'all: a b c\\na b c:\\n\\ttouch $@\\n' > Makefile; make -j4",
    "perl": "perl -MSocket -e 'socketpair(A,B,AF_UNIX,SOCK_STREAM,0) or die; fork // die; wait'",
    "node": 'node -e \'const {Worker}=require("worker_threads");const h=require("http");'
    'const s=h.createServer((q,r)=>r.end("ok")).listen(0,()=>h.get({port:s.address().port},r=>'
    '{s.close();new Worker("0",{eval:true});require("fs").readFile("/etc/passwd",()=>{})}))\'',
    "java": "cd /tmp; echo 'public class A { public static void main(String[] a) throws Exception {"
    " Thread t = new Thread(() -> {}); t.start(); t.join(); } }' > A.java; java A.java",
    "go": "cd /tmp; printf 'package main\\nfunc main() { go func() {}() }\\n' > a.go; go run a.go",
}


@pytest.mark.engine
@pytest.mark.parametrize("name", TOOLCHAIN_WORK)
def test_toolchain_of_this_machine_works(trial: Trial, name: str) -> None:
    if not Path("/usr/bin", name).exists():
        pytest.skip(f"this machine has no {name} to lend")
    binds = {path: {"bind": path, "mode": "ro"} for path in TOOLCHAINS if Path(path).is_dir()}
    status, output = trial.run(
        "bash", "-ec", TOOLCHAIN_WORK[name], seccomp=profile_json(), binds=binds
    )
    assert status == 0, output


def test_only_native_architectures_are_listed() -> None:
    listed = profile()["archMap"]
    assert {entry["architecture"] for entry in listed} == {"SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"}
    assert all(entry["subArchitectures"] == [] for entry in listed)


def test_everything_unnamed_is_refused() -> None:
    assert profile()["defaultAction"] == "SCMP_ACT_ERRNO"
    assert profile()["defaultErrnoRet"] == 1


def test_every_rule_states_its_reason() -> None:
    assert all(rule["comment"] for rule in profile()["syscalls"])


def test_no_call_is_both_allowed_without_condition_and_named_again() -> None:
    rules = profile()["syscalls"]
    free = [name for rule in rules if "args" not in rule for name in rule["names"]]
    conditional = {name for rule in rules if "args" in rule for name in rule["names"]}
    assert len(free) == len(set(free))
    assert not conditional & set(free)


def test_compact_text_is_the_same_profile_without_comments() -> None:
    compact = json.loads(profile_json())
    assert "comment" not in profile_json()
    assert [rule["names"] for rule in compact["syscalls"]] == [
        rule["names"] for rule in profile()["syscalls"]
    ]


def test_a_caller_cannot_change_the_profile_of_others() -> None:
    profile()["syscalls"].clear()
    assert profile()["syscalls"]
