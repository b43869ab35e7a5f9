"""The supervisor of one host run: starts the confined command, watches it, and ends everything.

Two Landlock domains are stacked. The supervisor's own only confines signals; the command's lies
inside it and confines everything. So the supervisor can signal the command and all it starts, and
nothing else on the machine, and the command can signal neither the supervisor nor anything outside:
one ``kill(-1, SIGKILL)`` ends a fork bomb, daemons and all.

On the control socket it writes lines: ``started``; ``denied CALL PATH-IN-HEX``; ``failed STAGE
ERRNO``; ``ended BY WAIT-STATUS CPU-MICROSECONDS PEAK-KIB DIRECTORY-IN-HEX``, where BY is ``self``
or ``request``.
Anything it reads there, the end of that socket, and the end of the client are reasons to kill.
"""

import _socket
import marshal
import posix

from sandboxed_tools.host.supervisor.confine import become_command, confine_signals, reset_signals
from sandboxed_tools.host.supervisor.libc import (
    buffer,
    getrusage,
    number,
    poll,
    prctl,
    syscall,
    words,
)
from sandboxed_tools.host.supervisor.observe import Observer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["main"]

_O_CLOEXEC = 0o2000000
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_PIDFD_OPEN, _PIDFD_GETFD = 434, 438
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE_FS, _SIGCHLD = 0x200, 17
_POLLIN, _SIGKILL, _EINTR = 1, 9, 4


def main(control: int, *, client: int) -> None:
    """Wait for one run on ``control`` and carry it out. Never returns."""
    try:
        reset_signals()
        client_pidfd = syscall(_PIDFD_OPEN, client, 0)
        told = _receive(control, client_pidfd) if posix.getppid() == client else None
        if told is not None:
            _Supervisor(told, control=control, client=client_pidfd).run()
    except BaseException as error:  # noqa: BLE001 - the client is told, whatever it was
        posix.write(control, f"failed supervisor {error!r}"[:500].encode() + b"\n")
    finally:
        posix._exit(0)


def _receive(control: int, client: int) -> "dict[str, Any] | None":
    """What is to be run, with its descriptors; ``None`` when the client ended before."""
    if _ready([control, client])[client]:
        return None
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, control)
    head, ancillary, _flags, _address = connection.recvmsg(8, _socket.CMSG_LEN(4 * 253))
    content = bytearray()
    while head and len(content) < number(head):
        piece = connection.recv(number(head) - len(content))
        if not piece:
            return None
        content += piece
    connection.detach()
    if not head:
        return None
    told: dict[str, Any] = marshal.loads(content)
    raw = ancillary[0][2]
    fds = [number(raw[at : at + 4]) for at in range(0, len(raw), 4)]
    told["streams"], told["cwd"] = fds[:3], fds[3]
    told["readable"] = fds[4 : 4 + told["folders"]]
    told["script"] = fds[4 + told["folders"]] if len(fds) > 4 + told["folders"] else -1
    return told


class _Supervisor:
    def __init__(self, told: "dict[str, Any]", *, control: int, client: int) -> None:
        self._told = told
        self._control = control
        self._client = client
        self._observer: Observer | None = None
        self._child = 0
        self._status = _SIGKILL
        self._signals_confined = False
        self._requested = False
        self._client_gone = False

    def run(self) -> None:
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if self._told["scope"]:
            confine_signals(self._told["scope"])
            self._signals_confined = True
        started = False
        try:
            started = self._start()
            if started:
                self._say("started")
                self._watch()
        finally:
            self._end_everything()
        if started:
            self._report()
        if self._client_gone:
            self._remove_scratch()

    def _say(self, line: str) -> None:
        try:
            posix.write(self._control, line.encode() + b"\n")
        except OSError:
            self._client_gone = True

    def _start(self) -> bool:
        """Fork the command and wait until it executes; whether it does."""
        null = posix.open("/dev/null", posix.O_RDWR | _O_CLOEXEC)
        while null < 4:
            # A script goes to descriptor 3 in the child, so nothing that it needs may lie there.
            null = posix.dup(null)
        report, report_end = posix.pipe2(_O_CLOEXEC)
        go_end, go = posix.pipe2(_O_CLOEXEC)
        me = posix.getpid()
        # The directory is shared: where the command ended is then where this process is, while an
        # ended process has none left in /proc. A plain system call does: nothing here has threads.
        self._child = syscall(_CLONE[posix.uname().machine], _CLONE_FS | _SIGCHLD, 0, 0, 0, 0)
        if not self._child:
            become_command(self._told, report=report_end, go=go_end, supervisor=me)
        for fd in (report_end, go_end):
            posix.close(fd)
        # The streams end when the last process of the command has ended, not when this one does.
        for fd in self._told["streams"]:
            posix.close(fd)
        message = posix.read(report, 256)
        if message[:1] == b"L":
            self._take_listener(number(message[1:5]))
            posix.write(go, b".")
            message = posix.read(report, 256)
        if message:
            self._say("failed " + message[1:].decode())
        return not message

    def _take_listener(self, fd: int) -> None:
        pidfd = syscall(_PIDFD_OPEN, self._child, 0)
        self._observer = Observer(
            syscall(_PIDFD_GETFD, pidfd, fd, 0),
            calls=self._told["calls"],
            writable=self._told["scratch"] + b"/tmp",
            note=lambda name, path: self._say(f"denied {name} {path.hex()}"),
        )

    def _watch(self) -> None:
        """Answer and listen until the main process has ended or somebody wants it to end."""
        main_process = syscall(_PIDFD_OPEN, self._child, 0)
        watched = [self._control, self._client, main_process]
        if self._observer is not None:
            watched.append(self._observer.listener)
        while True:
            states = _ready(watched)
            if states[self._client]:
                self._client_gone = self._requested = True
                return
            if states[main_process]:
                return
            if states[self._control]:
                self._requested = True
                self._client_gone = not posix.read(self._control, 64)
                return
            if self._observer is not None and states[self._observer.listener]:
                if states[self._observer.listener] & _POLLIN:
                    self._observer.answer()
                else:
                    # Nobody is left who is under the filter.
                    watched.remove(self._observer.listener)
                    self._observer = None

    def _end_everything(self) -> None:
        """Kill every process of the call, and reap until none is left."""
        while True:
            self._kill_all()
            try:
                pid, status = posix.waitpid(-1, 0)
            except ChildProcessError:
                return
            if pid == self._child:
                self._status = status

    def _kill_all(self) -> None:
        if self._signals_confined and _outside_is_out_of_reach():
            try:
                posix.kill(-1, _SIGKILL)
            except (ProcessLookupError, PermissionError):
                # Nobody is left.
                return
            return
        # Those whose parent is killed become children of this process, so the next round has them.
        for pid in _children():
            try:
                posix.kill(pid, _SIGKILL)
            except ProcessLookupError:
                continue

    def _report(self) -> None:
        usage = buffer(144)
        # RUSAGE_CHILDREN: ru_utime, ru_stime, ru_maxrss
        getrusage(-1, usage)
        user_s, user_us, system_s, system_us, peak = (
            number(usage.raw[at : at + 8]) for at in range(0, 40, 8)
        )
        microseconds = (user_s + system_s) * 1_000_000 + user_us + system_us
        by = "request" if self._requested else "self"
        self._say(f"ended {by} {self._status} {microseconds} {peak} {_directory().hex()}")

    def _remove_scratch(self) -> None:
        space: dict[str, Any] = {"__name__": "remove_tree"}
        exec(self._told["remover"], space)
        space["remove_tree"](self._told["scratch"])


def _directory() -> bytes:
    """Where the command ended; empty when that place is gone."""
    try:
        return posix.getcwdb()
    except OSError:
        return b""


def _ready(fds: list[int]) -> dict[int, int]:
    """Wait until something happens on one of them; what happened on each, as poll(2) says it."""
    polled = buffer(8 * len(fds), b"".join(words(fd, _POLLIN, width=4) for fd in fds))
    while True:
        try:
            poll(polled, len(fds), -1)
        except OSError as error:
            if error.errno != _EINTR:
                raise
        else:
            raw = polled.raw
            return {fd: number(raw[8 * i + 6 : 8 * i + 8]) for i, fd in enumerate(fds)}


def _outside_is_out_of_reach() -> bool:
    """Whether neither the parent nor init can be signalled: ``kill(-1)`` is only safe then."""
    for pid in (posix.getppid(), 1):
        try:
            posix.kill(pid, 0)
        except PermissionError:
            continue
        except OSError:
            return False
        return False
    return True


def _children() -> list[int]:
    pid = posix.getpid()
    fd = posix.open(f"/proc/{pid}/task/{pid}/children", posix.O_RDONLY | _O_CLOEXEC)
    try:
        return [int(word) for word in posix.read(fd, 65536).split()]
    finally:
        posix.close(fd)
