"""Runs inside a probe container and tries what must not work; prints one JSON object.

The text of this file is sent into the container as it is: it imports nothing but the standard
library, and it works in Python 3.9 and later. Every attempt is made in a child where it could
end the process. ``sys.argv``: bytes of ``/tmp``, processes allowed, bytes of memory.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import platform
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

SYSCALLS = {
    "x86_64": {"io_uring_setup": 425, "ptrace": 101, "unshare": 272, "keyctl": 250, "bpf": 321},
    "aarch64": {"io_uring_setup": 425, "ptrace": 117, "unshare": 97, "keyctl": 219, "bpf": 280},
}
CLONE_NEWUSER = 0x10000000
AF_VSOCK = 40
ANSWER_S = 20.0


def syscall(name: str, *arguments: Any) -> str:
    """The errno's name, or ``done`` when the call succeeded."""
    number = SYSCALLS[platform.machine()][name]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, *arguments) == -1:
        return errno.errorcode.get(ctypes.get_errno(), "?")
    return "done"


def attempt(function: Callable[..., object], *arguments: Any) -> str:
    """What became of an attempt: ``done``, or the errno's name."""
    try:
        function(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "done"


def in_child(function: Callable[[], str]) -> str:
    """The child's answer in words, or ``signal N``. It is killed when it takes too long."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        os.write(writing, str(function()).encode())
        os._exit(0)
    os.close(writing)
    deadline = time.monotonic() + ANSWER_S
    ended, status = 0, 0
    while not ended and time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        time.sleep(0.005)
    if not ended:
        os.kill(pid, signal.SIGKILL)
        ended, status = os.waitpid(pid, 0)
    with os.fdopen(reading) as file:
        answer = file.read()
    return answer or (f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "?")


def status_fields() -> dict[str, str]:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        pairs = (line.split(":", 1) for line in file if ":" in line)
        return {name: value.strip() for name, value in pairs}


def compat_call() -> str:
    """A 32-bit getpid through int 0x80, which a filter for the native architecture alone kills."""
    if platform.machine() != "x86_64":
        return "not on this architecture"
    # mov eax, 20; int 0x80; ret
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    return f"returned {ctypes.CFUNCTYPE(ctypes.c_int)(address)()}"


def fill_tmp(limit_bytes: int) -> dict[str, Any]:
    """How many bytes fit into /tmp before it is full; at most four times the limit is tried."""
    written, piece = 0, b"\0" * 65536
    answer = "done"
    try:
        with open("/tmp/fill", "wb", buffering=0) as file:
            while written < 4 * limit_bytes:
                written += file.write(piece)
    except OSError as error:
        answer = errno.errorcode.get(error.errno or 0, "?")
    os.unlink("/tmp/fill")
    return {"bytes": written, "answer": answer}


def count_processes(limit: int) -> dict[str, Any]:
    """How many children could be had at once; at most twice the limit is tried."""
    children: list[int] = []
    answer = "done"
    while len(children) < 2 * limit:
        try:
            pid = os.fork()
        except OSError as error:
            answer = errno.errorcode.get(error.errno or 0, "?")
            break
        if pid == 0:
            signal.pause()
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return {"processes": len(children) + 1, "answer": answer}


def spin(seconds: float) -> dict[str, float]:
    """Processor seconds that two spinning processes got in ``seconds``."""
    deadline = time.monotonic() + seconds
    children = []
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            while time.monotonic() < deadline:
                pass
            os._exit(0)
        children.append(pid)
    used = 0.0
    for pid in children:
        usage = os.wait4(pid, 0)[2]
        used += usage.ru_utime + usage.ru_stime
    return {"cpu_s": used, "wall_s": seconds}


def cpu_quota() -> float | None:
    """The kernel's own figure of the share of a processor; 0 for none, ``None`` when unreadable."""
    for path in ("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"):
        try:
            with open(path, encoding="ascii") as file:
                words = file.read().split()
            if len(words) == 1:
                with open(path.replace("quota", "period"), encoding="ascii") as file:
                    words.append(file.read())
        except OSError:
            continue
        return 0.0 if words[0] in ("max", "-1") else int(words[0]) / int(words[1])
    return None


def eat(limit_bytes: int) -> str:
    """Touch twice the memory that is allowed, as the one that the kernel should kill for it."""
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")
    hoard: list[bytearray] = []
    while len(hoard) * 1048576 < 2 * limit_bytes:
        hoard.append(bytearray(b"x" * 1048576))
    return f"got {len(hoard)} MiB"


def connects(address: str) -> str:
    with socket.socket() as probe:
        probe.settimeout(2)
        return attempt(probe.connect, (address, 80))


def make_socket(family: int, kind: int, protocol: int = 0) -> None:
    socket.socket(family, kind, protocol).close()


def write_file(path: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write("0")


def read_some(path: str) -> int | str:
    try:
        with open(path, "rb") as file:
            return len(file.read(4096))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "?")


def main() -> None:
    tmp_bytes, pids, memory_bytes = map(int, sys.argv[1:4])
    status = status_fields()
    found = {
        "uid": os.getuid(),
        "capabilities": {key: status[key] for key in status if key.startswith("Cap")},
        "no_new_privileges": status.get("NoNewPrivs"),
        "seccomp": status.get("Seccomp"),
        "root": attempt(write_file, "/usr/probe"),
        "sysctl": attempt(write_file, "/proc/sys/kernel/hostname"),
        "interfaces": [name for _, name in socket.if_nameindex()],
        "metadata": connects("169.254.169.254"),
        "internet": connects("192.0.2.1"),
        "vsock": attempt(make_socket, AF_VSOCK, socket.SOCK_STREAM),
        "packet": attempt(make_socket, socket.AF_PACKET, socket.SOCK_RAW),
        "netlink": attempt(make_socket, socket.AF_NETLINK, socket.SOCK_RAW, 9),
        "io_uring": syscall("io_uring_setup", 4, ctypes.create_string_buffer(256)),
        "bpf": syscall("bpf", 5, ctypes.create_string_buffer(256), 128),
        "keyctl": syscall("keyctl", 0, -3, 1),
        "ptrace": in_child(lambda: syscall("ptrace", 0, 0, 0, 0)),
        "userns": in_child(lambda: syscall("unshare", CLONE_NEWUSER)),
        "compat": in_child(compat_call),
        "kcore": read_some("/proc/kcore"),
        "cmdline": read_some("/proc/cmdline"),
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        "core": resource.getrlimit(resource.RLIMIT_CORE)[1],
        "tmp": fill_tmp(tmp_bytes),
        "pids": count_processes(pids),
        "cpu": spin(1.0),
        "quota": cpu_quota(),
        "memory": in_child(lambda: eat(memory_bytes)),
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
