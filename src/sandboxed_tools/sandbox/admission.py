"""Admission: how many calls run at once, who is next, and when the host has had enough.

One gate for a process. Who does not fit waits in a bounded queue with a deadline; who does not fit
into the queue, or has waited too long, is told what was full. A full queue is shared fairly, too.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from sandboxed_tools.errors import Overloaded
from sandboxed_tools.sandbox.machine_slots import MachineSlots

__all__ = ["Admission", "AdmissionLimits", "AdmissionStatus", "Ticket"]

RECHECK_S = 0.25
"""How often the host is looked at again while somebody waits for it."""


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """The gate's measures.

    Attributes:
        calls: calls that run at once in this process.
        queue: calls that wait at once; one more is refused.
        queue_s: the longest wait.
    """

    calls: int = 32
    queue: int = 256
    queue_s: float = 60.0


@dataclass(slots=True, eq=False)
class Ticket:
    """One call's place: waiting, then admitted, then given back.

    ``decided`` is set when it is admitted, or ``is_displaced`` by a call that had more right to it.
    """

    key: str
    priority: int
    decided: threading.Event = field(default_factory=threading.Event)
    is_displaced: bool = False
    asked_at: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class AdmissionStatus:
    """How full the gate is, and what of the host holds it back (empty: nothing)."""

    running: int
    waiting: int
    held_back_by: str


class Admission:
    """The gate. Safe to share by threads.

    Higher ``priority`` goes first; among equals, callers' keys take turns, so that a key with a
    thousand calls does not keep out a key with one. In a full queue the last call of the lowest
    priority, or of the key that has the most, gives its place up.

    ``host_is_full`` names what the host lacks, or gives an empty text. ``machine`` counts the calls
    of other processes too. What the host lacks holds no call back while nothing runs, here or as
    far as ``others_run`` knows: a busy host makes calls slow, not stuck.
    """

    def __init__(
        self,
        limits: AdmissionLimits | None = None,
        *,
        host_is_full: Callable[[], str] = lambda: "",
        machine: MachineSlots | None = None,
        others_run: Callable[[], bool] = lambda: False,
    ) -> None:
        self._limits = limits or AdmissionLimits()
        self._host_is_full = host_is_full
        self._machine = machine
        self._others_run = others_run
        self._machine_again_at = 0.0
        self._lock = threading.Lock()
        self._running = 0
        self._queues: dict[int, dict[str, deque[Ticket]]] = {}
        self._waiting = 0
        self._held_back_by = ""

    def enter(
        self,
        *,
        key: str = "",
        priority: int = 0,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> float:
        """Wait for a place; seconds waited. Give it back with :meth:`leave`. Blocking.

        Raises:
            Overloaded: ``what`` is ``queue``, ``calls`` or what the host lacks.
        """
        ticket = Ticket(key, priority)
        with self._lock:
            if self._waiting >= self._limits.queue and not self._make_room(ticket):
                raise Overloaded(
                    f"{self._running} calls run and {self._waiting} wait already: try later",
                    what="queue",
                )
            self._put(ticket)
            self._machine_again_at = 0.0
            self._admit()
        deadline = ticket.asked_at + self._limits.queue_s
        while not ticket.decided.is_set():
            left = deadline - time.monotonic()
            if left > 0 and is_wanted():
                if not ticket.decided.wait(min(left, RECHECK_S)):
                    with self._lock:
                        self._admit()
                continue
            with self._lock:
                if ticket.decided.is_set():
                    break
                self._remove(ticket)
                lacking = self._held_back_by or "calls"
            if not is_wanted():
                raise Overloaded(
                    "the call was cancelled while it waited for its turn", what=lacking
                )
            raise Overloaded(
                f"no place within {self._limits.queue_s:g} s: {lacking} is the limit; try later",
                what=lacking,
            )
        if ticket.is_displaced:
            raise Overloaded(
                "the queue is full, and others had more right to this place: try later",
                what="queue",
            )
        return time.monotonic() - ticket.asked_at

    def leave(self) -> None:
        """Give a place back, when everything of the call is gone."""
        with self._lock:
            self._running -= 1
            if self._machine is not None:
                self._machine.give_back()
                self._machine_again_at = 0.0
            self._admit()

    def status(self) -> AdmissionStatus:
        with self._lock:
            return AdmissionStatus(self._running, self._waiting, self._held_back_by)

    # ---- under the lock ----

    def _put(self, ticket: Ticket) -> None:
        self._queues.setdefault(ticket.priority, {}).setdefault(ticket.key, deque()).append(ticket)
        self._waiting += 1

    def _make_room(self, ticket: Ticket) -> bool:
        """Take the place of the call that has the least right to one, if it has less."""
        if not self._queues:
            return False
        priority = min(self._queues)
        keys = self._queues[priority]
        most = max(keys, key=lambda key: len(keys[key]))
        if priority > ticket.priority:
            return False
        if priority == ticket.priority and len(keys[most]) <= len(keys.get(ticket.key, ())) + 1:
            return False
        displaced = keys[most][-1]
        self._remove(displaced)
        displaced.is_displaced = True
        displaced.decided.set()
        return True

    def _remove(self, ticket: Ticket) -> None:
        keys = self._queues[ticket.priority]
        keys[ticket.key].remove(ticket)
        self._tidy(ticket.priority, ticket.key)
        self._waiting -= 1

    def _tidy(self, priority: int, key: str) -> None:
        keys = self._queues[priority]
        if not keys[key]:
            del keys[key]
        if not keys:
            del self._queues[priority]

    def _lacking(self) -> str:
        """What one more call would be too much for; else the machine has a slot for it."""
        lacking = self._host_is_full()
        if lacking and (self._running or self._others_run()):
            return lacking
        if self._machine is None:
            return ""
        # Everybody who waits comes by here: the slots are not tried anew for each of them.
        now = time.monotonic()
        if now >= self._machine_again_at:
            if self._machine.take():
                return ""
            self._machine_again_at = now + RECHECK_S / 2
        return "calls on this machine"

    def _admit(self) -> None:
        while self._waiting and self._running < self._limits.calls:
            self._held_back_by = self._lacking()
            if self._held_back_by:
                return
            priority = max(self._queues)
            keys = self._queues[priority]
            key = next(iter(keys))
            ticket = keys[key].popleft()
            # The key goes to the end of the row: the next turn is another's.
            keys[key] = keys.pop(key)
            self._tidy(priority, key)
            self._waiting -= 1
            self._running += 1
            ticket.decided.set()
