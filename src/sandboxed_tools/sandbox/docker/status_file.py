"""What each process of this installation is doing, for others to read: one file an owner.

The file is replaced once a second while there is something to say. Beside it lies a file that its
process holds locked: when nobody holds it any more, its process is dead, and whoever reads removes
both.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.sandbox.docker.status import SandboxStatus
from sandboxed_tools.sandbox.docker.threads import started_thread
from sandboxed_tools.tool.state import state_dir

__all__ = ["OwnerStatus", "StatusWriter", "others_run", "read_statuses"]

_log = logging.getLogger(__name__)

PERIOD_S = 1.0
QUIET_PERIODS = 10
MAX_BYTES = 4 * 1024 * 1024
FOLDER = "status"


@dataclass(frozen=True, slots=True)
class OwnerStatus:
    """One living process and what it said last: the fields of ``SandboxStatus`` as JSON."""

    pid: int
    written_at: float
    status: dict[str, Any]


class StatusWriter:
    """Writes while there is something to say, from a thread of its own that ends when there is not.

    What cannot be written is not a reason to fail a call: it is logged once.
    """

    def __init__(self, read: Callable[[], SandboxStatus]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._is_closed = False
        self._fd = -1
        self._path: Path | None = None

    def start(self) -> None:
        """Begin to write, if that has not begun; cheap to call for every call."""
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None and not self._is_closed:
                self._thread = started_thread(
                    self._run,
                    name="sandbox-status",
                    log=_log,
                    without="the status file cannot be written",
                )

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            thread = self._thread
        self._wake.set()
        if thread is not None:
            thread.join(5)

    def forget(self) -> None:
        """In a forked child: the lock is the parent's."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = -1

    def _run(self) -> None:
        try:
            self._open()
            self._write_until_quiet()
        except (OSError, ConfigurationError) as error:
            _log.info("the status file cannot be written: %s", error)
            self._remove()
        except BaseException:
            self._remove()
            raise

    def _write_until_quiet(self) -> None:
        quiet = 0
        last: SandboxStatus | None = None
        while True:
            status = self._read()
            if status != last:
                self._write(status)
                last = status
            is_quiet = not (status.calls or status.removing or any(s.ready for s in status.shelves))
            quiet = quiet + 1 if is_quiet else 0
            with self._lock:
                if self._is_closed or quiet > QUIET_PERIODS:
                    self._remove()  # before another thread may begin, whose file has this name
                    self._thread = None
                    return
            self._wake.wait(PERIOD_S)

    def _open(self) -> None:
        folder = state_dir() / FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        name = f"{os.getpid()}-{id(self):x}"
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._path = folder / f"{name}.json"
        # Locked before it has its name: a reader would take an unlocked one for a dead owner's.
        draft = self._path.with_suffix(".locking")
        self._fd = os.open(draft, flags, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        draft.replace(self._path.with_suffix(".lock"))

    def _write(self, status: SandboxStatus) -> None:
        assert self._path is not None
        draft = self._path.with_suffix(".new")
        draft.write_text(json.dumps(asdict(status)), encoding="utf-8")
        draft.replace(self._path)

    def _remove(self) -> None:
        if self._path is not None:
            for suffix in (".json", ".new", ".lock"):
                self._path.with_suffix(suffix).unlink(missing_ok=True)
            self._path = None
        self.forget()


def read_statuses() -> list[OwnerStatus]:
    """What every living process of this installation said last. Blocking.

    Raises:
        ConfigurationError: the state folder cannot be used.
    """
    return list(_read_all(state_dir() / FOLDER))


def others_run() -> bool:
    """Whether another process of this installation runs calls, as it said last. Blocking.

    What cannot be read may say that it does.
    """
    try:
        statuses = read_statuses()
    except (OSError, ConfigurationError):
        return True
    return any(one.pid != os.getpid() and one.status.get("running") for one in statuses)


def _read_all(folder: Path) -> Iterator[OwnerStatus]:
    for lock in sorted(folder.glob("*.lock")):
        path = lock.with_suffix(".json")
        if not _is_held(lock):
            for suffix in (".json", ".new", ".lock"):
                lock.with_suffix(suffix).unlink(missing_ok=True)
            continue
        try:
            with path.open("rb") as file:
                text = file.read(MAX_BYTES)
                written_at = os.fstat(file.fileno()).st_mtime
            status = json.loads(text)
            yield OwnerStatus(int(lock.name.partition("-")[0]), written_at, dict(status))
        except (OSError, ValueError, TypeError) as error:
            _log.debug("%s cannot be read: %s", path, error)


def _is_held(lock: Path) -> bool:
    try:
        fd = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        # Who cannot open anything more knows nothing about this file.
        return error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False
