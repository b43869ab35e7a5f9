"""Walking a hostile tree: by descriptors, never through a link, within budgets.

Each folder is opened from the root with the path that was seen, so that a folder which became a
link, or moved away, is skipped. Nothing is recursive, and one folder is open at a time, whatever
the depth. Links, loops of links and mounts are listed as names and never entered.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, TypeVar

from sandboxed_tools.workspace.confined import ConfinedTree
from sandboxed_tools.workspace.spelling import Parts

__all__ = ["Folder", "StopReason", "Walk", "WalkBudget"]

StateT = TypeVar("StateT")

StopReason = Literal["entries", "time", "cancelled"]
"""Why a walk ended before it had seen everything."""

_CHECKED_EVERY: Final = 512
_CHANGED: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


@dataclass(frozen=True, slots=True)
class WalkBudget:
    """What a walk may use: entries listed, seconds, folders below each other, folders waiting."""

    max_entries: int = 2_000_000
    wall_s: float = 20.0
    max_depth: int = 512
    max_pending: int = 200_000


@dataclass(frozen=True, slots=True)
class Folder(Generic[StateT]):
    """An open folder of a walk: valid until the next one is asked for."""

    fd: int
    parts: Parts
    state: StateT


@dataclass(slots=True)
class Walk(Generic[StateT]):
    """Folders still to be listed, deepest first, and what happened so far.

    ::

        walk = Walk(tree)
        walk.push(parts, state)
        for folder in walk:
            for entry in walk.entries(folder):
                if entry.is_dir(follow_symlinks=False):
                    walk.push((*folder.parts, os.fsencode(entry.name)), state)

    Attributes:
        stopped: why it ended early; ``None`` when everything was seen.
        entries_seen, folders_seen: how much was listed.
        unreadable: folders that could not be opened: permission, or another mount.
        too_deep: folders that were not entered because of their depth.
    """

    tree: ConfinedTree
    budget: WalkBudget = field(default_factory=WalkBudget)
    is_cancelled: Callable[[], bool] = bool
    stopped: StopReason | None = None
    entries_seen: int = 0
    folders_seen: int = 0
    unreadable: int = 0
    too_deep: int = 0
    _pending: list[tuple[Parts, StateT]] = field(default_factory=list)
    _deadline: float = 0.0

    def __post_init__(self) -> None:
        self._deadline = time.monotonic() + self.budget.wall_s

    @property
    def is_complete(self) -> bool:
        """Whether every folder was seen."""
        return self.stopped is None and not self.unreadable and not self.too_deep

    def push(self, parts: Parts, state: StateT) -> None:
        """Have a folder listed later, unless it is too deep."""
        if len(parts) > self.budget.max_depth:
            self.too_deep += 1
        elif len(self._pending) >= self.budget.max_pending:
            # A folder with a million folders in it would be a list of all of them.
            self.stopped = self.stopped or "entries"
        else:
            self._pending.append((parts, state))

    def __iter__(self) -> Iterator[Folder[StateT]]:
        while self._pending and not self.should_stop():
            parts, state = self._pending.pop()
            try:
                fd = self.tree.open_listing(parts)
            except OSError as error:
                self.unreadable += error.errno not in _CHANGED
                continue
            self.folders_seen += 1
            try:
                yield Folder(fd, parts, state)
            finally:
                os.close(fd)

    def entries(self, folder: Folder[StateT]) -> Iterator[os.DirEntry[str]]:
        """List an open folder, until its end or the end of the budget."""
        count = 0
        try:
            with os.scandir(folder.fd) as listing:
                for entry in listing:
                    count += 1
                    if count == _CHECKED_EVERY:
                        self.entries_seen += count
                        count = 0
                        if self.should_stop():
                            return
                    yield entry
        except OSError:
            self.unreadable += 1
        finally:
            self.entries_seen += count

    def should_stop(self) -> bool:
        """Whether a budget is used up; remembers which."""
        if self.stopped is None:
            if self.entries_seen >= self.budget.max_entries:
                self.stopped = "entries"
            elif time.monotonic() >= self._deadline:
                self.stopped = "time"
            elif self.is_cancelled():
                self.stopped = "cancelled"
        return self.stopped is not None
