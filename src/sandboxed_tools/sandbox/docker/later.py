"""Work that follows a call, done a moment after its result: nobody is woken for it in between."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from sandboxed_tools.sandbox.docker.threads import started_thread

__all__ = ["Later"]

_log = logging.getLogger(__name__)

LOOK_S = 0.01
AWAKE_S = 0.25
"""How long after :meth:`Later.expect` jobs are looked for; a later one wakes the thread."""

REST_S = 10.0
"""After so long without a job the thread ends; the next call starts another."""


class Later:
    """Runs small jobs, in order, on a thread of its own. Safe to share by threads.

    A thread that is woken at the end of a call takes the interpreter away from the result: that is
    a tenth of a warm call. So :meth:`expect` wakes it while the call waits for its container; the
    thread then looks for jobs by itself, every ``LOOK_S``. What has not run when the process ends
    is left to the containers' lease and to ``gc``.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._jobs: deque[Callable[[], None]] = deque()
        self._running = 0
        self._awake_until = 0.0
        self._is_asleep = False
        self._has_thread = False
        self._is_closed = False

    @property
    def pending(self) -> int:
        """How many jobs have not ended yet."""
        with self._condition:
            return len(self._jobs) + self._running

    def expect(self) -> None:
        """A job may come soon."""
        with self._condition:
            self._awake_until = time.monotonic() + AWAKE_S
            self._rouse()

    def put(self, job: Callable[[], None]) -> None:
        """Have ``job`` run within about ``LOOK_S``.

        At once, here, when this value is closed, or no thread can be started for it.
        """
        with self._condition:
            if not self._is_closed:
                self._jobs.append(job)
                if self._rouse():
                    return
                self._jobs.remove(job)
        self._run_job(job)

    def close(self) -> None:
        """Run here what is left. Safe to call more than once."""
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()
        self._run_jobs()
        with self._condition:
            self._condition.wait_for(lambda: not self._running, timeout=REST_S)

    def _rouse(self) -> bool:
        """Have the thread look; ``False`` when there is none, and none can be started."""
        if not self._has_thread and not self._is_closed:
            thread = started_thread(
                self._run,
                name="sandbox-later",
                log=_log,
                without="what follows a call is done before its result",
            )
            self._has_thread = thread is not None
            return self._has_thread
        if self._is_asleep:
            self._condition.notify_all()
        return True

    def _run(self) -> None:
        while self._rested():
            self._run_jobs()

    def _rested(self) -> bool:
        """Wait for the next look; ``False`` when this thread is not needed any more."""
        with self._condition:
            if time.monotonic() < self._awake_until or self._jobs:
                self._condition.wait(LOOK_S)
            else:
                self._is_asleep = True
                is_needed = self._condition.wait(REST_S)
                self._is_asleep = False
                if not is_needed and not self._jobs:
                    self._has_thread = False
                    return False
            if self._is_closed:
                self._has_thread = False
            return not self._is_closed

    def _run_jobs(self) -> None:
        while True:
            with self._condition:
                if not self._jobs:
                    return
                job = self._jobs.popleft()
                self._running += 1
            try:
                self._run_job(job)
            finally:
                with self._condition:
                    self._running -= 1
                    self._condition.notify_all()

    @staticmethod
    def _run_job(job: Callable[[], None]) -> None:
        try:
            job()
        except Exception:  # noqa: BLE001  logged with its traceback
            _log.exception("what follows a call failed")
