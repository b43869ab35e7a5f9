"""Tries one call after another and prints what each came to, as JSON.

Runs inside a container, never as root.

Each try is a child of its own, because a call from a foreign architecture ends the process. The
answer is ``OK``, the name of an errno, or ``SIG`` and a number.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import platform
import socket
import struct
import sys
from collections.abc import Callable
from functools import partial

libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"

# Numbers of x86_64 and aarch64; from 424 on they are the same everywhere.
NUMBERS = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "userfaultfd": (323, 282),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "setns": (308, 268),
    "unshare": (272, 97),
    "clone": (56, 220),
    "io_setup": (206, 0),
    "vmsplice": (278, 75),
    "splice": (275, 76),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "mknodat": (259, 33),
    "personality": (135, 92),
    "kcmp": (312, 272),
    "fanotify_init": (300, 262),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "syslog": (103, 116),
    "acct": (163, 89),
    "swapon": (167, 224),
    "quotactl": (179, 60),
    "clock_settime": (227, 112),
    "settimeofday": (164, 170),
    "sethostname": (170, 161),
    "reboot": (169, 142),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "prlimit64": (302, 261),
    "io_uring_setup": (425, 425),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "clone3": (435, 435),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "mount_setattr": (442, 442),
    "memfd_secret": (447, 447),
    "modify_ldt": (154, -1),
    "iopl": (172, -1),
}
NEW_FLAGS = {
    "NEWNS": 0x20000,
    "NEWCGROUP": 0x2000000,
    "NEWUTS": 0x4000000,
    "NEWIPC": 0x8000000,
    "NEWUSER": 0x10000000,
    "NEWPID": 0x20000000,
    "NEWNET": 0x40000000,
}
SIGCHLD = 17


def call(name: str, *arguments: object) -> None:
    number = NUMBERS[name][0 if X86 else 1]
    # Plain integers would travel as 32-bit ints and leave rubbish in the upper halves.
    converted = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *converted)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    if name in ("clone", "clone3") and result == 0:
        os._exit(0)


def machine_code(code: bytes, data: bytes = b"") -> int:
    """Execute ``code`` below 4 GiB, with ``rcx`` at ``data``; the result of the call in it."""
    map_32bit = 0x40
    area = mmap.mmap(
        -1,
        4096,
        flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | map_32bit,
        prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC,
    )
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    area[2048 : 2048 + len(data)] = data
    whole = b"\x53\xb9" + struct.pack("<I", start + 2048) + code + b"\x5b\xc3"
    area[: len(whole)] = whole
    return int(ctypes.CFUNCTYPE(ctypes.c_int)(start)())


def by_int80(number: int, first: int, data: bytes = b"") -> None:
    set_registers = b"\xb8" + struct.pack("<I", number) + b"\xbb" + struct.pack("<I", first)
    result = machine_code(set_registers + b"\xcd\x80", data)
    if result < 0:
        raise OSError(-result, os.strerror(-result))


def x32_getpid() -> None:
    result = machine_code(b"\xb8" + struct.pack("<I", 0x40000000 | 39) + b"\x0f\x05")
    if result < 0:
        raise OSError(-result, os.strerror(-result))


def make_socket(family: int, kind: int, protocol: int) -> Callable[[], None]:
    return lambda: socket.socket(family, kind, protocol).close()


def pair_of_sockets() -> None:
    for end in socket.socketpair():
        end.close()


def ptrace_of_a_child() -> None:
    child = os.fork()
    if child == 0:
        os.read(os.pipe()[0], 1)
    try:
        call("ptrace", 16, child, 0, 0)  # PTRACE_ATTACH
    finally:
        os.kill(child, 9)


def vmsplice() -> None:
    _, write_end = os.pipe()
    buffer = ctypes.create_string_buffer(b"x")
    vector = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(buffer), 1))
    call("vmsplice", write_end, vector, 1, 0)


def own_memory() -> None:
    one, two = ctypes.create_string_buffer(8), ctypes.create_string_buffer(8)
    local = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(one), 8))
    remote = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(two), 8))
    call("process_vm_readv", os.getpid(), local, 1, remote, 1, 0)


def file_handle() -> None:
    handle = ctypes.create_string_buffer(struct.pack("II", 128, 0) + bytes(128))
    mount = ctypes.create_string_buffer(4)
    call("name_to_handle_at", -100, b"/tmp", handle, mount, 0)


def clone3(flags: int) -> None:
    arguments = struct.pack("11Q", flags, 0, 0, 0, SIGCHLD, 0, 0, 0, 0, 0, 0)
    call("clone3", ctypes.create_string_buffer(arguments), 64)


def limit_of(value: int) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(struct.pack("QQ", value, value))


def with_type(mode: int, device: int = 0) -> Callable[[], None]:
    name = f"/tmp/node-{mode:o}-{device}".encode()
    return lambda: call("mknodat", -100, name, mode | 0o600, device)


def probes() -> dict[str, Callable[[], None]]:
    any_bytes = ctypes.create_string_buffer(256)
    stream, datagram, raw, packets = 1, 2, 3, 5
    table: dict[str, Callable[[], None]] = {
        "socket unix": make_socket(1, stream, 0),
        "socket tcp": make_socket(2, stream, 6),
        "socket tcp by default": make_socket(2, stream, 0),
        "socket udp": make_socket(2, datagram, 17),
        "socket tcp6": make_socket(10, stream, 0),
        "socket netlink route": make_socket(16, raw, 0),
        "socketpair": pair_of_sockets,
        "socket icmp datagram": make_socket(2, datagram, 1),
        "socket icmp6 datagram": make_socket(10, datagram, 58),
        "socket raw": make_socket(2, raw, 1),
        "socket sctp by default": make_socket(2, packets, 0),
        "socket mptcp": make_socket(2, stream, 262),
        "socket udp-lite": make_socket(2, datagram, 136),
        "socket packet": make_socket(17, raw, 0),
        "socket alg": make_socket(38, packets, 0),
        "socket vsock": make_socket(40, stream, 0),
        "socket xdp": make_socket(44, raw, 0),
        "clone plain": lambda: call("clone", SIGCHLD, 0, 0, 0, 0),
        "clone3 plain": lambda: clone3(0),
        "clone3 NEWUSER": lambda: clone3(0x10000000),
        "personality query": lambda: call("personality", 0xFFFFFFFF),
        "personality no randomization": lambda: call("personality", 0x40000),
        "mknod regular": with_type(0o100000),
        "mknod fifo": with_type(0o010000),
        "mknod socket": with_type(0o140000),
        "mknod whiteout": with_type(0o020000),
        "mknod null": with_type(0o020000, 0x103),
        "mknod block": with_type(0o060000, 0x801),
        "nice": lambda: call("setpriority", 0, 0, 5),
        "nice process 1": lambda: call("setpriority", 0, 1, 5),
        "nice the whole group": lambda: call("setpriority", 1, 0, 5),
        "nice the whole user": lambda: call("setpriority", 2, 0, 5),
        "idle class": lambda: call("sched_setscheduler", 0, 5, ctypes.create_string_buffer(4)),
        "idle class of process 1": lambda: call(
            "sched_setscheduler", 1, 5, ctypes.create_string_buffer(4)
        ),
        "idle class of process 1 by attributes": lambda: call(
            "sched_setattr", 1, ctypes.create_string_buffer(struct.pack("II", 48, 5), 48), 0
        ),
        "idle input and output": lambda: call("ioprio_set", 1, 0, 3 << 13),
        "idle input and output of process 1": lambda: call("ioprio_set", 1, 1, 3 << 13),
        "limit oneself": lambda: call("prlimit64", 0, 0, limit_of(3600), 0),
        "limit processor time of process 1": lambda: call("prlimit64", 1, 0, limit_of(3600), 0),
        "limit open files of process 1": lambda: call("prlimit64", 1, 7, limit_of(64), 0),
        "ask for the limits of process 1": lambda: call("prlimit64", 1, 7, 0, limit_of(0)),
        "ptrace child": ptrace_of_a_child,
        "ptrace traceme": lambda: call("ptrace", 0, 0, 0, 0),
        "process_vm_readv": own_memory,
        "process_madvise": lambda: call("process_madvise", -1, any_bytes, 0, 4, 0),
        "pidfd_getfd": lambda: call("pidfd_getfd", os.pidfd_open(os.getpid()), 0, 0),
        "kcmp": lambda: call("kcmp", os.getpid(), os.getpid(), 1, 0, 0),
        "keyctl": lambda: call("keyctl", 0, -3, 1, 0, 0),
        "add_key": lambda: call("add_key", b"user", b"k", b"v", 1, -3),
        "request_key": lambda: call("request_key", b"user", b"k", 0, -3),
        "userfaultfd user mode": lambda: call("userfaultfd", 1),
        "bpf": lambda: call("bpf", 0, any_bytes, 120),
        "perf_event_open": lambda: call("perf_event_open", any_bytes, 0, -1, -1, 0),
        "io_uring_setup": lambda: call("io_uring_setup", 4, any_bytes),
        "io_setup": lambda: call("io_setup", 1, ctypes.create_string_buffer(8)),
        "vmsplice": vmsplice,
        "memfd_secret": lambda: call("memfd_secret", 0),
        "name_to_handle_at": file_handle,
        "open_by_handle_at": lambda: call("open_by_handle_at", -1, any_bytes, 0),
        "fanotify_init": lambda: call("fanotify_init", 0x200, 0),
        "mount": lambda: call("mount", b"t", b"/tmp", b"tmpfs", 0, 0),
        "umount2": lambda: call("umount2", b"/tmp", 2),
        "fsopen": lambda: call("fsopen", b"tmpfs", 0),
        "open_tree": lambda: call("open_tree", -100, b"/", 1),
        "move_mount": lambda: call("move_mount", -100, b"/", -100, b"/tmp", 0),
        "mount_setattr": lambda: call("mount_setattr", -100, b"/", 0, any_bytes, 32),
        "pivot_root": lambda: call("pivot_root", b"/", b"/"),
        "chroot": lambda: call("chroot", b"/"),
        "setns": lambda: call("setns", os.open("/proc/self/ns/uts", os.O_RDONLY), 0),
        "kexec_load": lambda: call("kexec_load", 0, 0, 0, 0xFFFF),
        "init_module": lambda: call("init_module", 0, 0, b""),
        "syslog": lambda: call("syslog", 10, 0, 0),
        "acct": lambda: call("acct", 0),
        "swapon": lambda: call("swapon", b"/tmp/x", 0),
        "quotactl": lambda: call("quotactl", 0, 0, 0, 0),
        "clock_settime": lambda: call("clock_settime", 0, any_bytes),
        "settimeofday": lambda: call("settimeofday", any_bytes, 0),
        "sethostname": lambda: call("sethostname", b"x", 1),
        "reboot": lambda: call("reboot", 0, 0, 0, 0),
    }
    for name, flag in NEW_FLAGS.items():
        table[f"clone {name}"] = partial(call, "clone", flag | SIGCHLD, 0, 0, 0, 0)
        table[f"unshare {name}"] = partial(call, "unshare", flag)
    if X86:
        table |= {
            "modify_ldt": lambda: call("modify_ldt", 0, any_bytes, 16),
            "iopl": lambda: call("iopl", 3),
            "int80 getpid": lambda: by_int80(20, 0),
            "int80 socketcall vsock": lambda: by_int80(102, 1, struct.pack("<III", 40, 1, 0)),
            "x32 getpid": x32_getpid,
        }
    return table


def outcome(probe: Callable[[], None]) -> str:
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            probe()
            answer = "OK"
        except OSError as error:
            answer = errno.errorcode.get(error.errno or 0, str(error.errno))
        os.write(write_end, answer.encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as stream:
        answer_bytes = stream.read()
    _, status = os.waitpid(child, 0)
    return f"SIG{os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else answer_bytes.decode()


if __name__ == "__main__":
    if os.getuid() == 0:
        # Unfiltered root would really mount, rename and reboot things.
        sys.exit("run this as an ordinary user, in a container")
    json.dump({name: outcome(probe) for name, probe in probes().items()}, sys.stdout)
