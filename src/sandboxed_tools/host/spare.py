"""Supervisors, started ahead of time: most of what a run costs is the start of an interpreter.

Each supervisor serves exactly one run. After it another one boots, so that it does not take the
processor from the command, and then waits, blocked, on its socket. Two wait, so that a run that
follows at once finds one as well. They end when this process ends, however that happens.
"""

from __future__ import annotations

import atexit
import functools
import marshal
import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType
from typing import Final

__all__ = ["Supervisor", "compiled", "supervisor"]

_MODULES: Final = ("libc", "confine", "observe", "program")
"""Modules of the supervisor, each after those that it imports."""

# Makes modules of what the parent compiled and calls the last one's main. The same interpreter, the
# same user, a descriptor that nobody else has: marshal is safe here, and it needs no import.
_BOOT: Final = """
import marshal, posix, sys
fd = int(sys.argv[1])
codes = marshal.loads(posix.pread(fd, posix.fstat(fd).st_size, 0))
posix.close(fd)
for name, code in codes:
    sys.modules[name] = module = type(sys)(name)
    exec(code, module.__dict__)
module.main(int(sys.argv[2]), client=int(sys.argv[3]))
"""

# SCM_MAX_FD, include/net/scm.h
_MAX_DESCRIPTORS: Final = 253
_SEND_S: Final = 10.0
_SPARES: Final = 2


class Supervisor:
    """One supervisor process and the socket to it."""

    def __init__(self) -> None:
        self.standing = _standing()
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            try:
                self._process = _spawn(theirs.fileno())
            except OSError:
                self.control.close()
                raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, told: dict[str, object], descriptors: Sequence[int]) -> None:
        """Hand over one run. Blocking.

        Raises:
            OSError: the supervisor is gone, does not read, or there are over 253 descriptors.
        """
        if len(descriptors) > _MAX_DESCRIPTORS:
            raise OSError("too many read roots for one run")
        content = marshal.dumps(told)
        self.control.settimeout(_SEND_S)
        # The descriptors come with the first byte.
        socket.send_fds(self.control, [len(content).to_bytes(8, "little")], list(descriptors))
        self.control.sendall(content)
        self.control.setblocking(False)

    def kill(self) -> None:
        """Kill the supervisor alone; what it supervises is the caller's to deal with."""
        self._process.kill()

    def forget(self) -> None:
        """Close the socket in a forked process, whose child the supervisor is not."""
        self.control.close()
        self._process.returncode = 0

    def close(self) -> None:
        """Close the socket and reap the process, which is killed if it still lives."""
        self.control.close()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


def _standing() -> tuple[str, ...]:
    """What a supervisor inherits and a run depends on: credentials, root folder, mounts."""
    with open("/proc/thread-self/status", encoding="ascii", errors="replace") as lines:
        wanted = ("Uid:", "Gid:", "Groups:", "NoNewPrivs:", "Seccomp:", "Cap")
        found = [line for line in lines if line.startswith(wanted)]
    root = os.stat("/")
    return (*found, f"{root.st_dev}:{root.st_ino}", os.readlink("/proc/thread-self/ns/mnt"))


def _spawn(control: int) -> subprocess.Popen[bytes]:
    code = os.memfd_create("sandboxed-tools-supervisor")
    try:
        with open(code, "wb", closefd=False) as file:
            file.write(_program())
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _BOOT, str(code), str(control), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(code, control),
            start_new_session=True,
            cwd="/",
            env=_interpreter_environment(),
        )
    finally:
        os.close(code)


def _interpreter_environment() -> dict[str, str]:
    # An interpreter that finds its own library only through this could not start without it. It is
    # the supervisor's; the command's environment is another.
    path = os.environ.get("LD_LIBRARY_PATH")
    return {} if path is None else {"LD_LIBRARY_PATH": path}


@functools.cache
def _program() -> bytes:
    package = f"{__package__}.supervisor"
    return marshal.dumps(
        [(f"{package}.{name}", compiled(f"supervisor/{name}.py")) for name in _MODULES]
    )


@functools.cache
def compiled(name: str) -> CodeType:
    """The code of a file beside this one, for an interpreter that cannot import it."""
    path = Path(__file__).parent / name
    return compile(path.read_text(encoding="utf-8"), str(path), "exec", optimize=2)


class _Spares:
    """The supervisors that wait for a run, the one that has waited longest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Supervisor] = deque()
        self._closed = False
        self._forget_in_child()
        os.register_at_fork(after_in_child=self._forget_in_child)
        atexit.register(self.close)

    def _forget_in_child(self) -> None:
        # The parent's spares serve the parent, and another thread may have held the lock.
        self._lock = threading.Lock()
        for waiting in self._waiting:
            waiting.forget()
        self._waiting = deque()

    def take(self) -> Supervisor:
        with self._lock:
            taken = self._waiting.popleft() if self._waiting else None
        if taken is not None and taken.standing != _standing():
            # This process gave up rights since then, which the waiting one still has.
            taken.close()
            taken = None
        return taken or Supervisor()

    def refill(self) -> None:
        with self._lock:
            while len(self._waiting) < _SPARES and not self._closed:
                self._waiting.append(Supervisor())

    def close(self) -> None:
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            each.close()


_WAITING: Final = _Spares()


@contextmanager
def supervisor() -> Iterator[Supervisor]:
    """A supervisor for one run, gone at the end; then spares for the next ones.

    Raises:
        OSError: no process could be started.
    """
    taken = _WAITING.take()
    try:
        yield taken
    finally:
        taken.close()
        # On its own, so that nobody waits for it. An interpreter that is shutting down starts no
        # more threads.
        with suppress(RuntimeError):
            threading.Thread(target=_refill, daemon=True).start()


def _refill() -> None:
    try:
        _WAITING.refill()
    except OSError:
        # The next run starts its own, and reports what hinders it.
        return
