"""How a container sees a workspace: the values and contracts between views and backends.

``workspace`` makes views, ``sandbox`` mounts them; neither imports the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.result import ChangeSummary, WorkspaceView

__all__ = [
    "ChangesMode",
    "ContainerUser",
    "Mount",
    "View",
    "ViewChoice",
    "ViewProvider",
    "ViewUsage",
    "WorkspaceAccess",
    "WorkspaceMount",
]

ChangesMode = Literal["discard", "hold", "apply"]
WorkspaceAccess = Literal["read_only", "copy_on_write"]
ViewChoice = Literal["auto", "overlay", "copy"]
"""``auto`` takes an overlay where one can be had, and a copied tree otherwise."""


@dataclass(frozen=True, slots=True)
class WorkspaceMount:
    """The folder that a call works on: its resolved host path and how the call may see it.

    Inside, it stands at the same path as on the host, and at ``/workspace``. ``session`` names the
    session whose held changes the call sees as if they had been applied; ``None`` sees none.
    """

    source: Path
    access: WorkspaceAccess = "copy_on_write"
    changes: ChangesMode = "discard"
    view: ViewChoice = "auto"
    session: str | None = None


@dataclass(frozen=True, slots=True)
class ContainerUser:
    """The numeric user of a container; never 0."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Mount:
    """One mount of a view, as the engine is to make it at every one of ``targets``.

    ``bind``: ``source`` is mounted without what is mounted below it, read-only unless ``read_only``
    is false. ``overlay``: the engine makes one ``local`` volume of type ``overlay`` with the
    options :attr:`overlay_options`. An overlay without ``upper`` has only lower folders, and the
    kernel makes it read-only: unlike a bind, it does not lead to the sockets and FIFOs of the host.
    The paths of an overlay hold no byte that mount options cannot carry. ``volume``: the engine has
    a volume ``source`` already, and the view removes it. Targets are UTF-8, but may
    hold colons and commas: name them in the engine's structured ``Mounts``, never in ``Binds``.
    """

    kind: Literal["bind", "overlay", "volume"]
    targets: tuple[str, ...]
    source: str = ""
    lowers: tuple[str, ...] = ()
    upper: str = ""
    work: str = ""
    read_only: bool = True
    options: tuple[str, ...] = ()

    @property
    def overlay_options(self) -> str:
        """The value of the volume's ``o`` option; ``type`` and ``device`` are ``overlay``."""
        layers = [f"lowerdir={':'.join(self.lowers)}"]
        if self.upper:
            layers += [f"upperdir={self.upper}", f"workdir={self.work}"]
        return ",".join([*layers, *self.options])


@dataclass(frozen=True, slots=True)
class ViewUsage:
    """What the changes of one view hold at this moment: allocated bytes, and entries.

    ``is_disk_low``: the host's disk is nearly full, whoever filled it; the call must end.
    """

    changed_bytes: int = 0
    entries: int = 0
    is_disk_low: bool = False


class View(Protocol):
    """A workspace as one container sees it; made before the container, ended after it."""

    @property
    def kind(self) -> WorkspaceView: ...

    @property
    def mounts(self) -> tuple[Mount, ...]: ...

    @property
    def cwd(self) -> str:
        """Where a command starts when it names no directory: the workspace's own path."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What differs from what was asked for, in words for ``ExecResult.warnings``.

        There may be more of it after :meth:`settle`.
        """
        ...

    def begin(self) -> bool:
        """Say that the call begins now; a view may have been made long ahead of it. Blocking.

        What the host changes in the workspace from now on conflicts with what the call changes.
        Without it, the call counts as begun when the view was made. ``False``: held changes came or
        went since then, or another folder is in the workspace's place; close this view, and open
        another.
        """
        ...

    def usage(self) -> ViewUsage:
        """What the changes hold now, to be compared with ``changes_bytes`` and ``changes_entries``.

        May be asked while the command runs, from any thread, and costs O(changes). Blocking.
        """
        ...

    def settle(self, *, ended_by_itself: bool) -> ChangeSummary:
        """Decide about the changes, after every process of the call is dead. Blocking."""
        ...

    def close(self) -> None:
        """Release mounts and folders. Blocking, and safe to call more than once."""
        ...


class ViewProvider(Protocol):
    """Makes views. Implemented by ``workspace`` and handed to a backend by the runtime."""

    def open(
        self,
        workspace: WorkspaceMount,
        user: ContainerUser,
        *,
        limits: Limits | None = None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> View:
        """Make the view that ``user`` may work on. Blocking.

        ``limits`` are the call's; what cannot be watched while the call runs is bounded by them
        afterwards. ``is_wanted`` is asked now and then where making the view takes long.

        Raises:
            InvalidWorkspace: the folder may not be used, with the reason.
            UnsupportedOnEngine: this machine cannot give such a view.
            SandboxUnavailable: the engine failed while it was made, or it is not wanted any more.
        """
        ...

    def gc(self) -> int:
        """Release what dead owners left behind; returns how many views. Blocking."""
        ...
