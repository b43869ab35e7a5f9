"""Naming a process so that no other can be taken for it, and asking whether it still lives.

A PID alone is reused. A start time is counted from boot and is shifted by a time namespace
(time_namespaces(7)), and a PID means something only inside its own namespace. So a process is named
by its machine, boot, namespaces, PID and start time, and what cannot be proved is *unknown*.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Literal, Self

__all__ = ["Life", "ProcessName", "process_life"]

Life = Literal["alive", "dead", "unknown"]

_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ProcessName:
    """One process of one boot of one machine. Every part is short ASCII without a hyphen."""

    machine: str
    boot: str
    pid_namespace: str
    time_namespace: str
    pid: str
    started: str

    @classmethod
    def current(cls) -> Self:
        """This process; right after a fork too. ``/proc`` must be there, or parts are unknown."""
        columns = _columns(os.getpid())
        return cls(
            machine=_machine(),
            boot=_read("/proc/sys/kernel/random/boot_id").replace("-", "")[:16] or _UNKNOWN,
            pid_namespace=_namespace("pid"),
            time_namespace=_namespace("time"),
            pid=str(os.getpid()),
            started=columns[19] if len(columns) > 19 else _UNKNOWN,
        )

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read back what ``str`` wrote; ``None`` for anything else."""
        parts = text.split("-")
        if len(parts) != 6 or not all(part.isascii() and part.isalnum() for part in parts):
            return None
        return cls(*parts)

    def __str__(self) -> str:
        return "-".join(astuple(self))

    def life(self) -> Life:
        """Whether the process still lives, as far as this process can prove."""
        here = ProcessName.current()
        if self.machine != here.machine or _UNKNOWN in (self.boot, here.boot):
            return "unknown"
        if self.boot != here.boot:
            return "dead"
        if _UNKNOWN in astuple(self) or self.pid_namespace != here.pid_namespace:
            return "unknown"
        if self.time_namespace != here.time_namespace or not self.pid.isdecimal():
            return "unknown"
        return process_life(int(self.pid), self.started)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _machine() -> str:
    # machine-id(5) asks to publish a keyed hash rather than the id.
    seed = _read("/etc/machine-id") or _read("/var/lib/dbus/machine-id") or os.uname().nodename
    return hashlib.sha256(b"sandboxed-tools machine\0" + seed.encode()).hexdigest()[:16]


def _namespace(kind: str) -> str:
    try:
        return str(os.stat(f"/proc/self/ns/{kind}").st_ino)
    except OSError:
        # A kernel without time namespaces has one time for all; the other kind always exists.
        return "none" if kind == "time" and os.path.exists("/proc/self/ns/pid") else _UNKNOWN


def _columns(pid: int) -> list[str]:
    """Fields 3 and up of ``/proc/PID/stat``; the second may hold any character (proc(5))."""
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def process_life(pid: int, started: str) -> Life:
    """Whether the process of this PID, in this namespace and boot, is the one that began then."""
    if pid <= 0:
        return "unknown"
    try:
        # Not /proc first: mounted with hidepid, it hides the living processes of other users.
        os.kill(pid, 0)
    except ProcessLookupError:
        return "dead"
    except PermissionError:
        pass
    except (OSError, OverflowError):
        return "unknown"
    columns = _columns(pid)
    if _read("/proc/self/stat").partition(" ")[0] != str(os.getpid()) or len(columns) <= 19:
        return "unknown"
    if columns[19] != started:
        return "dead"
    return "dead" if columns[0] in {"Z", "X"} and _threads(pid) <= 1 else "alive"


def _threads(pid: int) -> int:
    # A leader that has ended is shown as a zombie while its other threads go on.
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0
