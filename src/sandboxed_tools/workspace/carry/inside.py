"""What runs on the engine beside a carried tree, in a container of ours, before and after the call.

``fill`` receives the tree, as the user that will work on it. ``watch`` begins before that user's
first program, and remembers every entry by its inode and its last change (``ctime``), which the
kernel stamps and nothing unprivileged can set. So it can tell what was touched, whatever sizes and
times say, and sends only that. It never writes.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from dataclasses import dataclass
from hashlib import blake2b
from io import BufferedReader
from typing import Any, Final, cast

from sandboxed_tools.workspace.carry.pack import pack
from sandboxed_tools.workspace.carry.stream import BadStream, Reader, Writer
from sandboxed_tools.workspace.carry.unpack import Budget, OverBudget, unpack
from sandboxed_tools.workspace.cursor import TreeCursor, TreeMoved, walk

__all__ = ["CHANGES", "READY", "USAGE", "main"]

READY: Final = b"r"
USAGE: Final = b"q"
CHANGES: Final = b"c"

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_EVERYTHING: Final = 2**62
_TRIES: Final = 3
_SECOND_NS: Final = 1_000_000_000
_COARSE_CLOCK: Final = 5
"""CLOCK_REALTIME_COARSE of clock_gettime(2), to which Python gives no name."""


def main(argument: dict[str, Any]) -> None:
    """Do one job, and end; at the latest after ``lifetime_s``, or when nobody listens any more."""
    # Not the default action, which process 1 of a container never takes (signal(7)).
    signal.signal(signal.SIGALRM, lambda *_: os._exit(1))
    signal.alarm(argument["lifetime_s"])
    out = Writer(_write)
    top_fd = os.open(argument["tree"], _FOLDER)
    try:
        if argument["job"] == "fill":
            _fill(top_fd, out, argument["uid"], argument["gid"])
        else:
            _Watch.begin(top_fd).serve(out, most_entries=argument["most_entries"])
    except (BadStream, OverBudget, OSError, TreeMoved) as error:
        out.fault(f"{type(error).__name__}: {error}")


def _fill(top_fd: int, out: Writer, uid: int, gid: int) -> None:
    if os.geteuid() == 0:
        os.fchmod(top_fd, 0o700)
        os.fchown(top_fd, uid, gid)
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    os.umask(0)
    everything = Budget(_EVERYTHING, _EVERYTHING, _EVERYTHING)
    unpack(Reader(_read), top_fd, budget=everything, is_empty=True)
    out.put(READY)
    out.flush()


@dataclass(frozen=True, slots=True)
class _Watch:
    top_fd: int
    known: frozenset[bytes]
    entries: int
    held_bytes: int

    @classmethod
    def begin(cls, top_fd: int) -> _Watch:
        """Look at everything, before anybody else does. Ends when any later change shows."""
        info = os.fstat(top_fd)
        known = {_mark((), info)}
        latest_ns, entries, held_bytes = info.st_ctime_ns, 0, 0
        with TreeCursor(top_fd) as cursor:
            for entry in walk(cursor):
                if entry.left:
                    continue
                entries += 1
                held_bytes += entry.info.st_blocks * 512
                latest_ns = max(latest_ns, entry.info.st_ctime_ns)
                known.add(_mark(entry.path, entry.info))
        _wait_for_another_stamp(latest_ns)
        return cls(top_fd, frozenset(known), entries, held_bytes)

    def serve(self, out: Writer, *, most_entries: int) -> None:
        """Answer questions until nobody has any more."""
        out.put(READY)
        out.number(self.entries)
        out.number(self.held_bytes)
        out.flush()
        while question := sys.stdin.buffer.read(1):
            if question == USAGE:
                self._usage(out, most_entries=self.entries + most_entries)
            elif question == CHANGES:
                pack(self.top_fd, out, is_known=self._is_known)
            else:
                raise BadStream("a question that there is not")

    def _is_known(self, path: tuple[bytes, ...], info: os.stat_result) -> bool:
        return _mark(path, info) in self.known

    def _usage(self, out: Writer, *, most_entries: int) -> None:
        disk = os.fstatvfs(self.top_fd)
        entries, held_bytes = _count(self.top_fd, most_entries=most_entries)
        out.put(USAGE)
        out.number(entries)
        out.number(held_bytes)
        out.number(disk.f_blocks * disk.f_frsize)
        out.number(disk.f_bavail * disk.f_frsize)
        out.flush()


def _mark(path: tuple[bytes, ...], info: os.stat_result) -> bytes:
    facts = b"%d %d %d\0" % (stat.S_IFMT(info.st_mode), info.st_ino, info.st_ctime_ns)
    return blake2b(facts + b"/".join(path), digest_size=16).digest()


def _wait_for_another_stamp(latest_ns: int) -> None:
    """Wait until a change made now is stamped later than what we have seen, at most two seconds."""
    # File systems stamp from the kernel's coarse clock; old ones keep whole seconds only.
    if latest_ns % _SECOND_NS == 0:
        latest_ns += _SECOND_NS
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        if time.clock_gettime_ns(_COARSE_CLOCK) > latest_ns:
            return
        time.sleep(0.002)


def _count(top_fd: int, *, most_entries: int) -> tuple[int, int]:
    """Entries and allocated bytes of a tree that somebody may rearrange; high rather than low."""
    most = (0, 0)
    for _ in range(_TRIES):
        entries = held_bytes = 0
        try:
            with TreeCursor(top_fd) as cursor:
                for entry in walk(cursor):
                    if entry.left:
                        continue
                    entries += 1
                    held_bytes += entry.info.st_blocks * 512
                    if entries > most_entries:
                        break
            return entries, held_bytes
        except (TreeMoved, FileNotFoundError, NotADirectoryError):
            most = max(most, (entries, held_bytes))
    return most


def _read(most: int) -> bytes:
    # A buffer that gives what it has: read() would wait for as much as it is asked for.
    return cast(BufferedReader, sys.stdin.buffer).read1(most)


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
