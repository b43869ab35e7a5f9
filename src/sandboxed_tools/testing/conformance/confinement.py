"""What the command cannot reach: privileges, the host, devices, the network, its supervisor."""

from __future__ import annotations

from sandboxed_tools.testing.conformance.bench import Bench, ended, equal, output_of, require
from sandboxed_tools.testing.conformance.check import Expected, Suite

__all__ = ["SUITE"]

SUITE = Suite("confinement")

SUITE.row(
    "not-root",
    "the command is not root, in no way",
    "test $(id -u) -ne 0 && test $(id -g) -ne 0 && ! id -G | tr ' ' '\\n' | grep -qx 0 && "
    "awk '/^[UG]id:/ {for (i = 2; i <= 5; i++) if ($i == 0) exit 1}' /proc/self/status && echo ok",
    Expected(exit_code=0, stdout=b"ok\n"),
)
SUITE.row(
    "no-capabilities",
    "all five sets of capabilities are empty",
    "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb):' /proc/self/status | awk '{print $2}' | sort -u",
    Expected(exit_code=0, stdout=b"0000000000000000\n"),
)
SUITE.row(
    "no-new-privileges",
    "no new privileges can be gained, and system calls are filtered",
    "awk '/^NoNewPrivs:|^Seccomp:/ {print $2}' /proc/self/status | tr '\\n' ' '",
    Expected(exit_code=0, stdout=b"1 2 "),
)
SUITE.row(
    "read-only-root",
    "the root file system cannot be written, and /tmp can",
    "for d in / /etc /usr /usr/bin /var /root /home /opt /lib; do "
    "touch $d/trace 2>/dev/null && echo wrote $d; done; touch /tmp/trace && echo tmp",
    Expected(exit_code=0, stdout=b"tmp\n"),
)
SUITE.row(
    "home",
    "HOME is a place to write to",
    "echo x > ~/f && cat ~/f",
    Expected(exit_code=0, stdout=b"x\n"),
)
SUITE.row(
    "programs-in-tmp",
    "a program that was made in /tmp runs",
    "printf '#!/bin/sh\\necho ran\\n' > /tmp/p && chmod +x /tmp/p && /tmp/p",
    Expected(exit_code=0, stdout=b"ran\n"),
)
SUITE.row(
    "only-loopback",
    "there is no network interface but loopback, and that works",
    "tail -n +3 /proc/net/dev | awk -F: '{gsub(/ /, \"\", $1); print $1}'; python3 -ISc '"
    'import socket; s = socket.create_server(("127.0.0.1", 0)); '
    'c = socket.create_connection(s.getsockname()); print("connected")\'',
    Expected(exit_code=0, stdout=b"lo\nconnected\n"),
)
SUITE.row(
    "no-devices",
    "no device but the harmless ones is there",
    "find /dev -type b -o -type c | grep -vE "
    "'^/dev/(null|zero|full|random|urandom|tty|ptmx|console|pts/.*)$'; true",
    Expected(exit_code=0, stdout=b""),
)
SUITE.row(
    "no-engine",
    "no engine's socket is there, nor any other socket of the host",
    "find / -xdev -type s 2>/dev/null; for s in /var/run/docker.sock /run/docker.sock "
    "/run/containerd/containerd.sock /run/podman/podman.sock; do test -e $s && echo $s; done; true",
    Expected(exit_code=0, stdout=b""),
)
SUITE.row(
    "kernel-settings",
    "no kernel setting can be written",
    "for f in kernel/core_pattern kernel/hostname vm/drop_caches vm/overcommit_memory "
    "net/ipv4/ip_forward; do (cat /proc/sys/$f > /proc/sys/$f) 2>/dev/null && echo wrote $f; done;"
    " find /sys -maxdepth 4 -type f -writable 2>/dev/null | head -3; true",
    Expected(exit_code=0, stdout=b""),
)
SUITE.row(
    "kernel-memory",
    "no kernel address or memory can be read",
    "head -c 1 /proc/kcore 2>/dev/null | wc -c | grep -v '^0$'; "
    "grep -v '^0000000000000000' /proc/kallsyms 2>/dev/null | head -1; true",
    Expected(exit_code=0, stdout=b""),
)
SUITE.row(
    "own-memory-score",
    "the command cannot make itself harder to kill",
    "(echo -1000 > /proc/self/oom_score_adj) 2>/dev/null && echo lowered; true",
    Expected(exit_code=0, stdout=b""),
)
SUITE.row(
    "own-priority",
    "the command cannot raise its priority",
    "nice -n -5 true 2>/tmp/err; grep -q denied /tmp/err && echo refused; "
    "nice -n 5 true && echo ok",
    Expected(exit_code=0, stdout=b"refused\nok\n"),
)

REFUSED_CALLS = {
    "io-uring": "call((425, 425), 4, buffer)",
    "user-namespace": "call((272, 97), 0x10000000)",
    "user-namespace-by-clone3": (
        "call((435, 435), struct.pack('11Q', 1 << 28, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88)"
    ),
    "vsock": "socket.socket(40, 1)",
    "kernel-keys": "call((248, 217), b'user', b'k', b'v', 1, -3)",
    "netlink-audit": "socket.socket(16, 3, 9)",
    "icmp": "socket.socket(2, 2, 1)",
    "raw-socket": "socket.socket(2, 3, 1)",
    "trace": "call((101, 117), 0, 0, 0, 0)",
    "userfaultfd": "call((323, 282), 1)",
    "bpf": "call((321, 280), 0, buffer, 120)",
    "mount": "call((165, 40), b't', b'/tmp', b'tmpfs', 0, 0)",
    "set-the-clock": "time.clock_settime(time.CLOCK_REALTIME, 1)",
    "become-root": "os.setuid(0)",
    "device-node": "os.mknod('/tmp/d', 0o020600, os.makedev(1, 3))",
}
"""Calls that must be refused; system calls by their numbers on x86_64 and aarch64."""

HARMLESS_CALLS = (
    "call((39, 172))",
    "socket.socket(1, 1)",
    "socket.socket(2, 1)",
    "socket.socket(16, 3, 0)",
    "os.setuid(os.getuid())",
    "os.mknod('/tmp/f', 0o100600)",
    "time.clock_gettime(time.CLOCK_REALTIME)",
)
PREPARE = """
import ctypes, os, platform, socket, struct, time
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(256)
def call(numbers, *arguments):
    number = numbers[0 if platform.machine() == "x86_64" else 1]
    if libc.syscall(number, *arguments) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
"""

for name, attempt in REFUSED_CALLS.items():

    async def is_refused(bench: Bench, attempt: str = attempt) -> None:
        code = f"{PREPARE}\ntry:\n    {attempt}\nexcept OSError as e: print('refused', e.errno)"
        result = await bench.python(code)
        ended(result, "exited", exit_code=0)
        require(result.stdout.startswith(b"refused"), "the call succeeded")

    SUITE.check(f"refused-{name}", f"{name.replace('-', ' ')}: the kernel refuses it")(is_refused)


@SUITE.check("harmless-calls", "the harmless twins of the refused calls succeed")
async def harmless_calls(bench: Bench) -> None:
    code = "\n".join((PREPARE, *HARMLESS_CALLS, "print('all')"))
    result = await bench.python(code)
    ended(result, "exited", exit_code=0)
    equal(result.stdout, b"all\n", "stdout")


@SUITE.check("no-route-out", "every way out of the network fails, and fails soon")
async def no_route_out(bench: Bench) -> None:
    code = """
import socket
for host, port in (("1.1.1.1", 53), ("169.254.169.254", 80), ("10.0.0.1", 22), ("172.17.0.1", 80)):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        s = socket.socket(socket.AF_INET, kind); s.settimeout(2)
        try: s.connect((host, port)); print("reached", host, kind)
        except OSError: pass
for name in ("example.com", "host.docker.internal", "gateway.docker.internal"):
    try: print("resolved", name, socket.getaddrinfo(name, 80))
    except OSError: pass
print("end")
"""
    result = await bench.python(code, limits={"wall_s": 20})
    ended(result, "exited", exit_code=0)
    equal(result.stdout, b"end\n", "what was reached")


@SUITE.check("supervisor", "the command can neither read, stop, trace nor kill its supervisor")
async def supervisor(bench: Bench) -> None:
    text = """
for f in environ maps mem syscall stack auxv; do
    head -c 1 /proc/1/$f >/tmp/out 2>/dev/null && test -s /tmp/out && echo read $f
done
ls /proc/1/fd >/dev/null 2>&1 && echo listed fd
for s in KILL STOP TERM INT HUP QUIT USR1 USR2 ABRT SEGV CONT CHLD; do kill -$s 1 2>/dev/null; done
sleep 0.3; kill -0 1 2>/dev/null; test -d /proc/1 && echo alive; exit 6
"""
    result = await bench.bash(text)
    ended(result, "exited", exit_code=6)
    equal(result.stdout, b"alive\n", "what the command could do")


@SUITE.check(
    "starved-supervisor", "the command cannot starve its supervisor of processor time", alone=True
)
async def starved_supervisor(bench: Bench) -> None:
    text = """
renice -n 19 -p 1; renice -n 19 -u $(id -u); chrt -i -p 0 1; ionice -c 3 -p 1; taskset -p 1 1
for i in $(seq 60); do (while :; do :; done) & done
exit 5
"""
    result = await bench.bash(text, limits={"wall_s": 20})
    ended(result, "exited", exit_code=5)


SUITE.row(
    "limited-supervisor",
    "the command cannot have the kernel kill its supervisor for a limit that it set",
    "for l in cpu as data nofile nproc stack sigpending; do prlimit --pid 1 --$l=0:0; done "
    "2>/dev/null; for i in $(seq 100000); do kill -CHLD 1; done; exit 5",
    Expected(exit_code=5),
    wall_s=40,
)


@SUITE.check("host-secrets", "nothing of the host's root file system can be read")
async def host_secrets(bench: Bench) -> None:
    canary = bench.folder / "canary"
    canary.write_text("canary-of-the-host")
    canary.chmod(0o644)
    text = f"cat {canary} /proc/1/root{canary} /proc/self/root{canary} 2>/dev/null; "
    text += "find / -xdev -name canary 2>/dev/null; cat /proc/cmdline 2>/dev/null; echo end"
    equal(await output_of(bench, text), "end\n", "what was found")


@SUITE.check("hidden-names", "the host's name and resolver are not shown")
async def hidden_names(bench: Bench) -> None:
    import socket

    shown = await output_of(bench, "hostname; cat /etc/hostname /etc/hosts /proc/self/cgroup")
    require("localhost" in shown, f"the files were not read: {shown!r}")
    name = socket.gethostname()
    require(len(name) < 4 or name not in shown, f"the host's name is shown: {shown!r}")
