"""Background work that waits for a quiet moment, but never long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

__all__ = ["Quiet"]

SETTLE_S = 0.01


class Quiet:
    """Knows whether calls are running. Making and removing containers costs the engine a hundred
    times what a warm call costs; done a moment later, it is out of the way of a burst of calls.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._running = 0
        self._last_end = 0.0
        self._is_open = False

    def begin(self) -> None:
        with self._condition:
            self._running += 1

    def end(self) -> None:
        with self._condition:
            self._running -= 1
            self._last_end = time.monotonic()

    def open(self) -> None:
        """From now on nobody waits."""
        with self._condition:
            self._is_open = True
            self._condition.notify_all()

    def wait(self, *, at_most_s: float, can_wait: Callable[[], bool]) -> None:
        """Block until no call has run for a moment, at most ``at_most_s``.

        ``can_wait`` is asked every ``SETTLE_S``, and must not block; its no ends the wait.
        """
        deadline = time.monotonic() + at_most_s
        with self._condition:
            while not self._is_open and can_wait():
                now = time.monotonic()
                # The end of a call wakes nobody: it would cost the call's own result its turn.
                quiet_at = (now if self._running else self._last_end) + SETTLE_S
                if now >= deadline or now >= quiet_at:
                    return
                self._condition.wait(min(deadline, quiet_at) - now)
