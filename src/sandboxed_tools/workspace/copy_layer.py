"""Laying a held change set over a copy of the workspace, as an overlay of both would show them."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandboxed_tools.workspace.copy_tree import CopyReport, TreeCopy, finish_copy
from sandboxed_tools.workspace.cursor import Entry, TreeCursor, walk
from sandboxed_tools.workspace.layers import is_opaque, is_whiteout
from sandboxed_tools.workspace.remove import remove_tree

__all__ = ["lay_over_copy"]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def lay_over_copy(layer: Path, copy: Path, *, owner: tuple[int, int]) -> CopyReport:
    """Merge the upper folder ``layer`` into the private ``copy``, which nobody uses yet.

    Whiteouts and opaque folders take away what the copy has there. Files are copied, never linked:
    a call writes into the copy, and the set must stay as it is. What comes belongs to ``owner``;
    the report counts it. The copy's own top keeps its mode and times. Blocking, O(layer).

    Raises:
        OSError, TreeMoved: ``copy`` then has part of it.
    """
    report = CopyReport()
    layer_fd = os.open(layer, _FOLDER)
    try:
        copy_fd = os.open(copy, _FOLDER)
        try:
            top = os.fstat(copy_fd)
            with (
                TreeCursor(layer_fd, force=True) as source,
                TreeCursor(copy_fd, force=True) as target,
            ):
                job = _Lay(source, target, copy_fd, owner, report)
                for entry in walk(source):
                    job.take(entry)
            finish_copy(copy_fd, top, owner=owner)
        finally:
            os.close(copy_fd)
    finally:
        os.close(layer_fd)
    return report


@dataclass(slots=True)
class _Lay(TreeCopy):
    """A copy onto what is there; folders on both sides are merged."""

    def take(self, entry: Entry) -> None:
        if entry.left:
            self._leave(entry)
            return
        if entry.is_folder and self._is_merged(entry):
            self.copy.enter(entry.name)
            # The layer's own mode is set on the way out; until then we must get through.
            os.fchmod(self.copy.fd, 0o700)
            return
        _clear(self.copy.fd, entry.name)
        if not is_whiteout(entry.info):
            TreeCopy.take(self, entry)

    def _is_merged(self, entry: Entry) -> bool:
        with suppress(FileNotFoundError):
            there = os.stat(entry.name, dir_fd=self.copy.fd, follow_symlinks=False)
            return stat.S_ISDIR(there.st_mode) and not self._hides(entry.name)
        return False

    def _hides(self, name: bytes) -> bool:
        self.source.enter(name)
        try:
            return is_opaque(self.source.fd)
        finally:
            self.source.leave()


def _clear(folder: int, name: bytes) -> None:
    # There is no call that removes a tree by a name in an open folder.
    remove_tree(b"/proc/self/fd/%d/%b" % (folder, name))
