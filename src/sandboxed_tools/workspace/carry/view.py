"""A copy of the workspace that is carried to the engine, and its changes back."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from sandboxed_tools.errors import InvalidWorkspace, Overloaded, SandboxUnavailable
from sandboxed_tools.tool.carrier import TreeCarrier, TreeVolume
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.mounts import ContainerUser, Mount, ViewUsage
from sandboxed_tools.tool.result import ChangeSummary, WorkspaceView
from sandboxed_tools.workspace.carry.talk import TreeWatcher, fill
from sandboxed_tools.workspace.carry.unpack import Budget, OverBudget
from sandboxed_tools.workspace.open_view import OpenView, is_disk_low

__all__ = ["CarriedView", "carry"]

_log = logging.getLogger(__name__)
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CARRYING_S: Final = 2 * 3600
"""What the way there and back, and waiting, may take beside the call."""

_CHECK_EVERY: Final = 256
_NOTHING: Final = ViewUsage()


@dataclass(slots=True)
class CarriedView:
    """The view of a call on a carried copy; see ``tool.mounts.View`` for the contract.

    ``local`` is the copy as it was sent. What comes back is laid over it, and then it is settled
    like any copy that a call worked on itself. ``watcher`` is a helper beside the tree, ``None``
    where nothing can be changed.
    """

    local: OpenView
    volume: TreeVolume
    limits: Limits
    user: ContainerUser
    watcher: TreeWatcher | None
    warnings: tuple[str, ...]
    _closed: bool = field(default=False, init=False)

    @property
    def kind(self) -> WorkspaceView:
        return "copy"

    @property
    def mounts(self) -> tuple[Mount, ...]:
        return tuple(
            replace(mount, kind="volume", source=self.volume.name) for mount in self.local.mounts
        )

    @property
    def cwd(self) -> str:
        return self.local.cwd

    def begin(self) -> bool:
        """A copy begins when it is made; ``False`` when it is out of date."""
        return self.local.begin()

    def usage(self) -> ViewUsage:
        """What the changes hold now, as the helper counts it. Blocking, O(tree)."""
        if self.watcher is None or self._closed:
            return _NOTHING
        try:
            return self.watcher.usage()
        except SandboxUnavailable as error:
            # What cannot be measured any more must not go on.
            _log.warning("a carried copy cannot be measured: %s", error)
            return ViewUsage(is_disk_low=True)

    def settle(self, *, ended_by_itself: bool) -> ChangeSummary:
        """Fetch what was changed, and hold, apply or discard it. Blocking, O(tree) there.

        Raises:
            EngineFault: the changes cannot be fetched; nothing was applied.
            InvalidWorkspace, Overloaded, OSError, TreeMoved: nothing was applied.
        """
        if self.watcher is not None and self.local.origin.changes != "discard":
            try:
                self._fetch(self.watcher)
            except OverBudget as error:
                self.warnings += (f"the changes were discarded: {error}",)
                return ChangeSummary(decision="discarded")
        return self.local.settle(ended_by_itself=ended_by_itself)

    def close(self) -> None:
        """Release the copies on both sides. Blocking, and safe to call more than once."""
        if self._closed:
            return
        self._closed = True
        with ExitStack() as stack:
            stack.callback(self.local.close)
            stack.callback(self.volume.close)
            if self.watcher is not None:
                stack.callback(self.watcher.close)

    def _fetch(self, watcher: TreeWatcher) -> None:
        """Make the local copy into what the engine has, as far as they differ."""
        before, limits = self.local.baseline, self.limits
        entries = before.entries + limits.changes_entries
        held_bytes = max(before.changed_bytes, watcher.held_bytes)
        budget = Budget(
            entries=entries,
            content_bytes=held_bytes + limits.changes_bytes,
            listed=entries,
        )
        fd = os.open(self.local.folder.copy, _FOLDER)
        try:
            watcher.changes(
                fd,
                budget=budget,
                owner=(self.user.uid, self.user.gid) if os.geteuid() == 0 else None,
                check=_DiskCheck(self.local.folder.path),
            )
        finally:
            os.close(fd)


@dataclass(slots=True)
class _DiskCheck:
    """Raises before the disk of the state folder is full; looks only now and then."""

    folder: Path
    calls: int = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls % _CHECK_EVERY == 0 and is_disk_low(self.folder):
            raise Overloaded("The disk of the state folder is nearly full.", what="disk")


def carry(
    local: OpenView,
    carrier: TreeCarrier,
    *,
    user: ContainerUser,
    limits: Limits,
    is_wanted: Callable[[], bool],
) -> CarriedView:
    """Send a copy, which nobody uses yet, to the engine. Blocking, O(tree).

    ``local`` belongs to the view that is returned, and to the caller when this raises.

    Raises:
        SandboxUnavailable: the engine failed, or the view is not wanted any more.
        InvalidWorkspace: something of the copy cannot be read.
    """
    lifetime_s = limits.wall_s + _CARRYING_S
    with ExitStack() as undo:
        volume = carrier.new_volume(lifetime_s=lifetime_s)
        undo.callback(volume.close)
        try:
            fill(volume, local.folder.copy, user=user, lifetime_s=lifetime_s, is_wanted=is_wanted)
        except PermissionError as error:
            raise InvalidWorkspace(
                "The workspace holds a file that cannot be read, so it cannot be sent to the "
                "engine.",
                operator_detail=str(error),
            ) from error
        watcher = None
        if local.changed is not None:
            watcher = TreeWatcher.begin(
                volume, most_entries=limits.changes_entries, lifetime_s=lifetime_s
            )
        undo.pop_all()
    return CarriedView(local, volume, limits, user, watcher, local.warnings)
