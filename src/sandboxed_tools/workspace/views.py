"""Choosing and making the view of a workspace that one container gets.

The container never gets a writable path to the host. It works on an overlay whose lower layer is
the workspace and whose upper layer is thrown away, or, where no overlay can be had, on a copy.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sandboxed_tools.errors import InvalidWorkspace, UnsupportedOnEngine
from sandboxed_tools.tool.carrier import TreeCarrier
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.mounts import ContainerUser, Mount, WorkspaceMount
from sandboxed_tools.tool.state import state_dir
from sandboxed_tools.workspace.carry import CarriedView, carry
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.copy_changes import Copied
from sandboxed_tools.workspace.copy_layer import lay_over_copy
from sandboxed_tools.workspace.copy_tree import CopyReport, copy_tree
from sandboxed_tools.workspace.cursor import TreeMoved
from sandboxed_tools.workspace.engine_sight import EngineSees, EngineSight
from sandboxed_tools.workspace.file_time import file_time_ns
from sandboxed_tools.workspace.open_view import OpenView
from sandboxed_tools.workspace.overlay import (
    can_stand_in_options,
    overlay_refusal,
    trial_overlay,
)
from sandboxed_tools.workspace.overlay_layers import (
    NoOverlay,
    lead_to_held,
    lead_to_workspace,
    make_upper,
    overlay_mount,
)
from sandboxed_tools.workspace.regroup import merge_oldest
from sandboxed_tools.workspace.settle import Origin
from sandboxed_tools.workspace.view_folder import ViewFolder, dead_view_folders
from sandboxed_tools.workspace.view_source import (
    Source,
    check_users,
    differences,
    open_source,
    targets,
)
from sandboxed_tools.workspace.workspace_lock import workspace_lock

__all__ = ["EngineSees", "WorkspaceViews"]

MAX_LAYERS = 16
"""Held sets over one workspace; mount options have room for little more (mount(2): one page)."""

_log = logging.getLogger(__name__)


class WorkspaceViews:
    """Makes views of workspaces; implements ``tool.mounts.ViewProvider``. Safe to share by threads.

    ``engine_sees`` asks the engine about a path; without it the engine is taken to share this
    machine's files and mounts. ``carrier`` takes copies to an engine that does not; without one,
    such an engine gets no workspaces. ``protected`` are further patterns of paths whose changes are
    never applied without an explicit yes.
    """

    def __init__(
        self,
        *,
        engine_sees: EngineSees | None = None,
        carrier: TreeCarrier | None = None,
        protected: tuple[str, ...] = (),
    ) -> None:
        self._sight = EngineSight(engine_sees)
        self._carrier = carrier
        self._protected = protected
        self._refusals: dict[tuple[int, bool], str | None] = {}

    def open(
        self,
        workspace: WorkspaceMount,
        user: ContainerUser,
        *,
        limits: Limits | None = None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> OpenView | CarriedView:
        """Make the view that ``user`` may work on. Blocking; O(1), or O(tree) for a copy.

        ``limits`` and ``is_wanted`` as in ``ViewProvider``.

        Raises:
            InvalidWorkspace: the folder may not be used, with the reason.
            UnsupportedOnEngine: this machine or this engine cannot give such a view.
            SandboxUnavailable: a copy could not be carried to the engine.
            ConfigurationError: the state folder cannot be used.
        """
        with open_source(workspace.source) as source:
            check_users(source, user)
            if not self._sight.of_files():
                return self._carried(source, workspace, user, limits or Limits(), is_wanted)
            try:
                if workspace.view == "copy":
                    raise NoOverlay("a copy was asked for")
                return self._overlay(source, workspace, user, self._origin(source, workspace))
            except NoOverlay as refusal:
                if workspace.view == "overlay":
                    raise UnsupportedOnEngine(
                        "An overlay of this workspace cannot be made; let the view be 'copy'.",
                        operator_detail=str(refusal),
                    ) from None
                origin = self._origin(source, workspace)
                return _copy(source, workspace, user, origin, why=str(refusal))

    def version(self, workspace: WorkspaceMount) -> tuple[str, ...]:
        """What a view made now would show beside the workspace itself: the held sets' ids.

        A view that was made ahead of its call is of use only while this is the same.
        """
        if workspace.session is None:
            return ()
        path = Path(os.path.realpath(workspace.source))
        pending = ChangeStore().pending(workspace=path, session=workspace.session)
        return tuple(item.id for item in pending)

    def gc(self) -> int:
        """Release what dead owners left and old decided sets; returns how many. Blocking."""
        released = ChangeStore().prune()
        for folder in dead_view_folders(state_dir()):
            try:
                folder.remove()
            except OSError:
                _log.exception("view %s could not be removed", folder.path.name)
            else:
                released += 1
        return released

    def _origin(self, source: Source, workspace: WorkspaceMount) -> Origin:
        """What the view is made of, at this moment."""
        store = ChangeStore()
        pending = store.pending(workspace=source.path, session=workspace.session)
        while len(pending) > MAX_LAYERS and workspace.session is not None:
            with workspace_lock(os.fsencode(source.path)):
                pending = store.pending(workspace=source.path, session=workspace.session)
                if len(pending) > MAX_LAYERS:
                    merge_oldest(store, workspace=source.path, session=workspace.session)
            pending = store.pending(workspace=source.path, session=workspace.session)
        return Origin(
            workspace=source.path,
            inode=source.info.st_ino,
            owner=(source.info.st_uid, source.info.st_gid),
            changes=workspace.changes,
            session=workspace.session,
            layers=tuple(item.id for item in pending),
            began_ns=file_time_ns(store.folder),
            protected=self._protected,
        )

    def _carried(
        self,
        source: Source,
        workspace: WorkspaceMount,
        user: ContainerUser,
        limits: Limits,
        is_wanted: Callable[[], bool],
    ) -> CarriedView:
        """A copy for an engine with other files than ours, made here and sent there."""
        why = "the engine does not share this machine's files, so a copy is sent to it"
        if self._carrier is None or workspace.view == "overlay":
            raise UnsupportedOnEngine(
                "The engine does not share this machine's files, so it cannot be given an overlay "
                "of the workspace. Let the view be 'copy', or use a local engine.",
                operator_detail="the engine does not find the state folder",
            )
        local = _copy(source, workspace, user, self._origin(source, workspace), why=why)
        try:
            return carry(local, self._carrier, user=user, limits=limits, is_wanted=is_wanted)
        except BaseException:
            local.close()
            raise

    def _overlay(
        self, source: Source, workspace: WorkspaceMount, user: ContainerUser, origin: Origin
    ) -> OpenView:
        writable = workspace.access == "copy_on_write"
        self._check_ground(source)
        with _new_folder() as folder:
            lead_to_workspace(folder, source, user)
            held = lead_to_held(folder, source, user, origin.layers)
            if writable:
                make_upper(folder, source, user)
            else:
                folder.empty.mkdir(mode=0o700)
            mount = overlay_mount(folder, targets(source), held=held, writable=writable)
            self._try_overlay(source, mount)
            return OpenView(
                kind="overlay" if writable else "read_only",
                mounts=(mount,),
                cwd=mount.targets[0],
                folder=folder,
                origin=origin,
                changed=folder.upper if writable else None,
                warnings=differences(source),
            )

    def _check_ground(self, source: Source) -> None:
        state = state_dir()
        if not can_stand_in_options(state):
            raise NoOverlay("the state folder's path holds a byte that mount options cannot carry")
        if os.geteuid() != 0:
            if refusal := overlay_refusal(upper_on=state, lower_on=source.fd):
                raise NoOverlay(refusal)
            return
        try:
            seen = self._sight.of_mounts()
        except OSError as error:
            raise NoOverlay(f"no mounts can be made here: {error}") from error
        if not seen:
            raise NoOverlay("the engine does not see the mounts that this process makes")

    def _try_overlay(self, source: Source, mount: Mount) -> None:
        """Where we may, have the kernel make the overlay, once for each file system."""
        if os.geteuid() != 0:
            return
        ground = (source.info.st_dev, bool(mount.upper))
        if ground not in self._refusals:
            self._refusals[ground] = trial_overlay(mount)
        if refusal := self._refusals[ground]:
            raise NoOverlay(f"the kernel makes no overlay of this file system: {refusal}")


@contextmanager
def _new_folder() -> Iterator[ViewFolder]:
    """A view's folder that goes again when the view cannot be made."""
    folder = ViewFolder.create(state_dir())
    try:
        yield folder
    except BaseException:
        folder.remove()
        raise


def _copy(
    source: Source, workspace: WorkspaceMount, user: ContainerUser, origin: Origin, *, why: str
) -> OpenView:
    writable = workspace.access == "copy_on_write"
    with _new_folder() as folder:
        folder.copy.mkdir(mode=0o700)
        report = _filled(source, folder.copy, user, held=origin.layers)
        copied = Copied.survey(folder.copy)
        places = targets(source)
        return OpenView(
            kind="copy",
            mounts=(Mount("bind", places, source=str(folder.copy), read_only=not writable),),
            cwd=places[0],
            folder=folder,
            origin=origin,
            changed=folder.copy if writable else None,
            baseline=copied.usage,
            copied=copied,
            warnings=(*differences(source), *_copy_notes(report, why)),
        )


def _filled(
    source: Source, copy: Path, user: ContainerUser, *, held: tuple[str, ...]
) -> CopyReport:
    """Fill the empty ``copy`` with what an overlay would show: held sets over the workspace."""
    owner = (user.uid, user.gid)
    store = ChangeStore()
    try:
        report = copy_tree(source.fd, copy, owner=owner)
        for change_set_id in held:
            lay_over_copy(store.upper(change_set_id), copy, owner=owner)
    except (TreeMoved, FileNotFoundError):
        raise InvalidWorkspace(
            "The workspace, or a change set over it, was rearranged while it was copied; try again."
        ) from None
    return report


def _copy_notes(report: CopyReport, why: str) -> tuple[str, ...]:
    notes = [f"the call worked on a copy of the workspace: {why}"]
    if report.skipped_count:
        notes.append(
            f"{report.skipped_count} entries were not copied (devices, FIFOs, sockets, unreadable)"
        )
    return tuple(notes)
