"""One workspace as one container sees it, until it is closed."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandboxed_tools.tool.mounts import Mount, ViewUsage
from sandboxed_tools.tool.result import ChangeSummary, WorkspaceView
from sandboxed_tools.workspace.copy_changes import Copied, collect_changes
from sandboxed_tools.workspace.file_time import file_time_ns
from sandboxed_tools.workspace.settle import Origin, is_current, settle_changes
from sandboxed_tools.workspace.tree_usage import tree_usage
from sandboxed_tools.workspace.view_folder import ViewFolder

__all__ = ["OpenView", "is_disk_low", "is_reserve_touched"]

_log = logging.getLogger(__name__)
_RESERVE_BYTES = 512 * 1024 * 1024
_COPY_FRESH_NS = 3_000_000_000
_NOTHING = ViewUsage()


@dataclass(slots=True)
class OpenView:
    """What :class:`WorkspaceViews` hands out; see ``tool.mounts.View`` for the contract.

    ``changed`` is the folder that grows with the changes, ``None`` where nothing can be changed;
    ``baseline`` is what it held when the view was made. ``copied`` tells what a copy started from.
    """

    kind: WorkspaceView
    mounts: tuple[Mount, ...]
    cwd: str
    folder: ViewFolder
    origin: Origin
    changed: Path | None = None
    baseline: ViewUsage = _NOTHING
    copied: Copied | None = None
    warnings: tuple[str, ...] = ()
    _closed: bool = field(default=False, init=False)

    def begin(self) -> bool:
        """Move the beginning of the call to now; ``False`` when the view is out of date.

        A copy shows the workspace as it was when it was made: it begins then, and is soon outdated.
        """
        now_ns = file_time_ns(self.folder.path)
        if self.copied is not None:
            return is_current(self.origin) and now_ns - self.origin.began_ns < _COPY_FRESH_NS
        self.origin = replace(self.origin, began_ns=now_ns)
        return is_current(self.origin)

    def usage(self) -> ViewUsage:
        """What the changes hold now. A tree that is rearranged while it is counted counts high."""
        if self.changed is None or self._closed:
            return _NOTHING
        now = tree_usage(self.changed)
        return ViewUsage(
            changed_bytes=max(0, now.changed_bytes - self.baseline.changed_bytes),
            entries=max(0, now.entries - self.baseline.entries),
            is_disk_low=is_disk_low(self.changed),
        )

    def settle(self, *, ended_by_itself: bool) -> ChangeSummary:
        """Hold, apply or discard the changes, as the workspace's mount says. Blocking, O(changes).

        Raises:
            InvalidWorkspace, Overloaded, OSError, TreeMoved: nothing was applied.
        """
        if self.changed is None:
            return ChangeSummary(decision="none")
        upper = self.changed
        if self.copied is not None and self.origin.changes != "discard":
            upper = self.folder.upper
            collect_changes(self.origin, self.copied, copy=self.changed, upper=upper)
        return settle_changes(self.origin, upper, ended_by_itself=ended_by_itself)

    def close(self) -> None:
        """Release everything; what cannot be released is logged, and left for the next ``gc``."""
        if self._closed:
            return
        self._closed = True
        try:
            self.folder.remove()
        except OSError:
            _log.exception("view %s could not be removed", self.folder.path.name)


def is_disk_low(folder: Path) -> bool:
    """Whether what an ordinary user may still write to a folder's disk is too little."""
    disk = os.statvfs(folder)
    return is_reserve_touched(
        total_bytes=disk.f_blocks * disk.f_frsize, free_bytes=disk.f_bavail * disk.f_frsize
    )


def is_reserve_touched(*, total_bytes: int, free_bytes: int) -> bool:
    """Whether less is free than 2 % of a disk, or 512 MiB."""
    return free_bytes < min(total_bytes // 50, _RESERVE_BYTES)
