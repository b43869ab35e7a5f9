"""Containers of one mould that wait for a call, and how many there should be."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass, field

from sandboxed_tools.sandbox.docker.container import Container
from sandboxed_tools.sandbox.docker.create import Mould

__all__ = ["BASE_TARGET", "MAX_AGE_S", "MAX_TARGET", "Shelf", "ShelfStatus"]

BASE_TARGET = 2
MAX_TARGET = 8
BURST_S = 2.0
"""Calls within this time count as one burst: what was asked for lately may be asked for again."""

BUSY_S = 60.0
IDLE_S = 300.0
MAX_REVIVE_S = 60.0
MAX_AGE_S = 600.0
"""A container is replaced when it has waited so long; its launcher gives up a minute later."""

REPLACED_AT_ONCE = 2
LOW_STOCK = 1


@dataclass(slots=True, eq=False)
class Shelf:
    """Not thread-safe: the pool holds its lock around every use.

    ``pinned`` is what :meth:`Pool.prewarm` asked for. ``is_usable`` is false for what cannot be
    made ahead of time. ``active_at`` is when filling may begin. ``deaths`` counts containers that
    ended while they waited, since the last one that was fit for its call.
    """

    mould: Mould
    pinned: int = 0
    is_usable: bool = True
    active_at: float = math.inf
    ready: deque[Container] = field(default_factory=deque)
    filling: int = 0
    waiting: int = 0
    retry_at: float = 0.0
    failures: int = 0
    last_error: str = ""
    deaths: int = 0
    revive_at: float = 0.0
    used_at: float = field(default_factory=time.monotonic)
    _takes: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_TARGET + 1))

    def note_use(self, now: float) -> None:
        self.used_at = now
        self._takes.append(now)

    def succeed(self, other: Shelf) -> None:
        """Take over what is asked of ``other``, which this shelf replaces."""
        self.pinned = max(self.pinned, other.pinned)
        self.active_at = min(self.active_at, other.active_at)
        self.is_usable = other.is_usable

    def target(self, now: float) -> int:
        """How many containers should stand here: it follows demand, and falls to none."""
        if not self.is_usable or now < self.active_at:
            return 0
        unused_s = now - self.used_at
        wanted = 0
        if unused_s < BUSY_S:
            burst = sum(1 for take in self._takes if now - take < BURST_S)
            wanted = min(MAX_TARGET, max(BASE_TARGET, burst + 1))
        elif unused_s < IDLE_S:
            wanted = 1
        return max(self.pinned, wanted)

    def note_death(self, now: float) -> None:
        """A container ended while it waited: where every one does, no more are started at once."""
        self.deaths += 1
        self.revive_at = now + min(MAX_REVIVE_S, 0.25 * 2 ** min(self.deaths, 10))

    def deficit(self, now: float) -> int:
        """How many should be started now."""
        if now < max(self.retry_at, self.revive_at):
            return 0
        return max(0, self.target(now) - len(self.ready) - self.filling)

    def is_stocked(self) -> bool:
        """Whether the next calls are served: what comes after them can wait for a quiet moment."""
        return len(self.ready) > LOW_STOCK and not self.waiting

    def surplus(self, now: float) -> list[Container]:
        """Take off what is too old, dead or too much. The oldest stand in front."""
        # A few at a time, so that their successors stand here before the last one goes.
        old = [c for c in self.ready if now - c.made_at > MAX_AGE_S][:REPLACED_AT_ONCE]
        gone = [c for c in self.ready if c in old or not c.is_waiting]
        self.ready = deque(c for c in self.ready if c not in gone)
        if len(gone) > len(old):
            self.note_death(now)
        # Falling targets are followed slowly: a container that is there costs little.
        keep = max(self.target(now), BASE_TARGET if now - self.used_at < BUSY_S else 0)
        if now - self.used_at > BURST_S * 5:
            while len(self.ready) > keep:
                gone.append(self.ready.popleft())
        return gone

    def is_over(self, now: float) -> bool:
        """Whether nobody will miss this shelf."""
        return (
            not self.ready
            and not self.filling
            and not self.waiting
            and not self.pinned
            and now - self.used_at > IDLE_S
        )


@dataclass(frozen=True, slots=True)
class ShelfStatus:
    """What one shelf holds now."""

    image: str
    workspace: str | None
    ready: int
    filling: int
    target: int
    failures: int
    deaths: int
    last_error: str

    @classmethod
    def of(cls, shelf: Shelf, *, now: float) -> ShelfStatus:
        workspace = shelf.mould.spec.workspace
        return cls(
            image=shelf.mould.spec.image,
            workspace=str(workspace.source) if workspace else None,
            ready=len(shelf.ready),
            filling=shelf.filling,
            target=shelf.target(now),
            failures=shelf.failures,
            deaths=shelf.deaths,
            last_error=shelf.last_error,
        )
