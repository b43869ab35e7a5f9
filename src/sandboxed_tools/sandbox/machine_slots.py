"""A count of calls across all processes that share a folder, so that a limit holds for the machine.

A slot is a file, and holding it is a lock on it (flock(2)): the kernel gives it back when its
process dies, however that happens, so nothing has to be cleaned up or can be counted twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import threading
import weakref
from pathlib import Path

__all__ = ["MachineSlots"]

_log = logging.getLogger(__name__)

_all: weakref.WeakSet[MachineSlots] = weakref.WeakSet()


class MachineSlots:
    """At most ``count`` slots, whoever takes them. Safe to share by threads.

    ``folder`` must belong to the user of the processes that share it, and be closed to others:
    whoever can open the files can hold all slots.
    """

    def __init__(self, folder: Path, *, count: int) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._count = count
        self._lock = threading.Lock()
        self._held: list[int] = []
        _all.add(self)

    def take(self) -> bool:
        """Take a slot; ``False`` when all are taken. Does not wait.

        A folder that cannot be used has no slots: a count that nobody can keep lets nobody in.
        """
        with self._lock:
            try:
                fd = self._free_slot()
            except OSError as error:
                _log.error("the count of calls on this machine cannot be kept: %s", error)
                return False
            if fd is None:
                return False
            self._held.append(fd)
            return True

    def _free_slot(self) -> int | None:
        for number in range(self._count):
            fd = os.open(
                self._folder / str(number),
                os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
            )
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
            except BaseException:
                os.close(fd)
                raise
            else:
                return fd
        return None

    def give_back(self) -> None:
        with self._lock:
            os.close(self._held.pop())

    def forget(self) -> None:
        """In a forked child: the slots are the parent's; drop the copies of its locks."""
        for fd in self._held:
            with contextlib.suppress(OSError):
                os.close(fd)
        self._held = []
        self._lock = threading.Lock()


def _forget_all() -> None:
    for slots in list(_all):
        slots.forget()


os.register_at_fork(after_in_child=_forget_all)
