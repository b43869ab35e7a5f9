"""Counting what a tree holds while somebody may be changing it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from sandboxed_tools.tool.mounts import ViewUsage
from sandboxed_tools.workspace.cursor import TreeCursor, TreeMoved, walk

__all__ = ["tree_usage"]

_TRIES: Final = 3


def tree_usage(folder: Path) -> ViewUsage:
    """Allocated bytes and entries of a tree that somebody may be changing. Blocking, O(tree)."""
    most = ViewUsage()
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
