"""One workspace as one container sees it, until it is closed."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path

from sandboxed_tools.tool.mounts import Mount, ViewUsage
from sandboxed_tools.tool.result import ChangeSummary, WorkspaceView
from sandboxed_tools.workspace.cursor import TreeCursor, TreeMoved, walk
from sandboxed_tools.workspace.view_folder import ViewFolder

__all__ = ["OpenView", "tree_usage"]

_log = logging.getLogger(__name__)
_TRIES = 3
_NOTHING = ViewUsage()


@dataclass(slots=True)
class OpenView:
    """What :class:`WorkspaceViews` hands out; see ``tool.mounts.View`` for the contract.

    ``changed`` is the folder that grows with the changes, ``None`` where nothing can be changed;
    ``baseline`` is what it held when the view was made.
    """

    kind: WorkspaceView
    mounts: tuple[Mount, ...]
    cwd: str
    folder: ViewFolder
    changed: Path | None = None
    baseline: ViewUsage = _NOTHING
    warnings: tuple[str, ...] = ()
    _closed: bool = field(default=False, init=False)

    def usage(self) -> ViewUsage:
        """What the changes hold now. A tree that is rearranged while it is counted counts high."""
        if self.changed is None or self._closed:
            return _NOTHING
        now = tree_usage(self.changed)
        return ViewUsage(
            changed_bytes=max(0, now.changed_bytes - self.baseline.changed_bytes),
            entries=max(0, now.entries - self.baseline.entries),
        )

    def settle(self, *, ended_by_itself: bool) -> ChangeSummary:
        """Discard the changes."""
        return ChangeSummary(decision="none" if self.changed is None else "discarded")

    def close(self) -> None:
        """Release everything; what cannot be released is logged, and left for the next ``gc``."""
        if self._closed:
            return
        self._closed = True
        try:
            self.folder.remove()
        except OSError:
            _log.exception("view %s could not be removed", self.folder.path.name)


def tree_usage(folder: Path) -> ViewUsage:
    """Allocated bytes and entries of a tree that somebody may be changing. Blocking, O(tree)."""
    most = _NOTHING
    for _ in range(_TRIES):
        found, complete = _count(folder)
        if complete:
            return found
        most = max(most, found, key=lambda usage: (usage.changed_bytes, usage.entries))
    return most


def _count(folder: Path) -> tuple[ViewUsage, bool]:
    changed_bytes = entries = 0
    complete = True
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with TreeCursor(top, force=True) as cursor:
            for entry in walk(cursor):
                if not entry.left:
                    entries += 1
                    changed_bytes += entry.info.st_blocks * 512
    except (TreeMoved, FileNotFoundError, NotADirectoryError):
        complete = False
    finally:
        os.close(top)
    return ViewUsage(changed_bytes=changed_bytes, entries=entries), complete
