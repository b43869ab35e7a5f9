"""The folder of one view: made, named after its owner, and taken apart again.

``views/OWNER-NUMBER/`` below the state folder. The owner is in the name, so there is no moment at
which a view has none, and whatever a killed process leaves can be told from what is in use.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandboxed_tools.tool.process import ProcessName
from sandboxed_tools.workspace.idmap import unmount
from sandboxed_tools.workspace.remove import remove_tree

__all__ = ["ViewFolder", "dead_view_folders"]

_VIEWS: Final = "views"
_SPARE: Final = "spare-work"
_HELD: Final = "held-"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ViewFolder:
    """One view's folder. ``lower`` leads to the workspace, everything else is the view's own."""

    path: Path

    @classmethod
    def create(cls, state: Path) -> ViewFolder:
        """Make an empty one, owned by this process.

        Raises:
            OSError: the state folder cannot be written to.
        """
        views = state / _VIEWS
        views.mkdir(mode=0o700, exist_ok=True)
        path = views / f"{ProcessName.current()}-{secrets.token_hex(6)}"
        path.mkdir(mode=0o700)
        return cls(path)

    @property
    def lower(self) -> Path:
        return self.path / "lower"

    @property
    def upper(self) -> Path:
        return self.path / "upper"

    @property
    def work(self) -> Path:
        return self.path / "work"

    @property
    def empty(self) -> Path:
        return self.path / "empty"

    @property
    def copy(self) -> Path:
        return self.path / "copy"

    def held(self, index: int) -> Path:
        """The place of a held change set among the lower layers."""
        return self.path / f"{_HELD}{index}"

    def make_work(self) -> None:
        """Make the overlay's working folder, out of a spare one where there is one."""
        spare = self.path.parent.parent / _SPARE
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(spare):
                with contextlib.suppress(OSError):
                    os.rename(spare / name, self.work)
                    return
        self.work.mkdir(mode=0o700)

    def remove(self) -> None:
        """Unmount and delete everything; safe to repeat. Never reaches into the workspace.

        Raises:
            OSError: something stays; the folder stays with it.
        """
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.path):
                if name == self.lower.name or name.startswith(_HELD):
                    _release(self.path / name)
            for name in os.listdir(self.path):
                if name == self.work.name:
                    self._remove_work()
                else:
                    remove_tree(self.path / name)
            self.path.rmdir()

    def _remove_work(self) -> None:
        """Delete the working folder, or keep it for a later view.

        The engine's part of it belongs to root and is closed to us unless we are root, but the
        kernel empties it itself when it is used again.
        """
        try:
            remove_tree(self.work)
        except OSError:
            if os.geteuid() == 0:
                raise
            spare = self.path.parent.parent / _SPARE
            spare.mkdir(mode=0o700, exist_ok=True)
            os.rename(self.work, spare / secrets.token_hex(4))


def _release(place: Path) -> None:
    """Take a way out of the view apart: first of all, and never by a recursive removal."""
    if place.is_symlink():
        place.unlink()
        return
    if os.geteuid() == 0:
        unmount(place)
    place.rmdir()


def dead_view_folders(state: Path) -> Iterator[ViewFolder]:
    """The folders whose owner has provably ended, and that no mount uses any more."""
    views = state / _VIEWS
    try:
        names = os.listdir(views)
    except FileNotFoundError:
        return
    used = _overlays_in_use()
    for name in names:
        owner = ProcessName.parse(name.rpartition("-")[0])
        if owner is None or owner.life() != "dead":
            continue
        if name.encode() in used:
            _log.info("view %s is still mounted by the engine", name)
            continue
        yield ViewFolder(views / name)


def _overlays_in_use() -> bytes:
    """The mount table's lines about overlays; they name the folders that the overlays stand on."""
    with open("/proc/self/mountinfo", "rb") as table:
        return b"".join(line for line in table if b" - overlay " in line)
