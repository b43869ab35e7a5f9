"""Requests to the engine that a call may stop waiting for, because the engine may never answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from sandboxed_tools.errors import SandboxUnavailable

__all__ = ["Errands"]

LOOK_S = 0.1
GRACE_S = 0.4
"""How much longer an unwanted errand is waited for: most see it, and undo what they have done."""

T = TypeVar("T")


class Errands:
    """Each errand is on a thread of its own that does not keep the process. Safe to share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()

    def run(
        self,
        work: Callable[[], T],
        *,
        is_wanted: Callable[[], bool],
        give_away: Callable[[T], None] = lambda _: None,
    ) -> T:
        """Do ``work`` and wait for it while ``is_wanted``; what comes later is given away.

        Raises:
            SandboxUnavailable: it is not wanted any more, and has not ended yet; or no thread can
                be started for it.
        """
        errand = _Errand(work, give_away)
        thread = threading.Thread(
            target=self._carry_out, args=(errand,), name="sandbox-errand", daemon=True
        )
        with self._lock:
            try:
                thread.start()
            except RuntimeError as error:
                raise SandboxUnavailable(
                    "this program cannot start another thread to ask the engine",
                    operator_detail=str(error),
                ) from error
            self._threads.add(thread)
        while not errand.ended.wait(LOOK_S):
            if not is_wanted() and not errand.ended.wait(GRACE_S) and errand.leave():
                raise SandboxUnavailable("the call was cancelled while the engine was asked")
        return errand.result()

    def close(self, *, timeout_s: float) -> bool:
        """Wait for what still runs; ``False`` when something does after ``timeout_s``."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _carry_out(self, errand: _Errand[T]) -> None:
        try:
            errand.carry_out()
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())


class _Errand(Generic[T]):
    def __init__(self, work: Callable[[], T], give_away: Callable[[T], None]) -> None:
        self._work = work
        self._give_away = give_away
        self._lock = threading.Lock()
        self._is_left = False
        self._results: list[T] = []
        self._error: BaseException | None = None
        self.ended = threading.Event()

    def carry_out(self) -> None:
        try:
            self._results.append(self._work())
        except BaseException as error:  # noqa: BLE001  raised again where it is waited for
            self._error = error
        with self._lock:
            self.ended.set()
            is_left = self._is_left
        if is_left:
            for result in self._results:
                self._give_away(result)

    def leave(self) -> bool:
        """Wait no more; ``False`` when it has ended just now."""
        with self._lock:
            self._is_left = not self.ended.is_set()
            return self._is_left

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._results[0]
