"""Taking the steps of an apply or an undo, so that a crash at any point can be made good.

The set's state says what is being done, its plan how. Both are on the disk before the first step,
and the state changes again only after the last one is, so whoever finds ``applying`` or ``undoing``
knows what to go on with.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from sandboxed_tools.workspace.change import Change, ChangeSet, SetStatus
from sandboxed_tools.workspace.change_paths import PlacedChange
from sandboxed_tools.workspace.change_store import ChangeStore, sync_file_system
from sandboxed_tools.workspace.changeset import folder_facts
from sandboxed_tools.workspace.copy_tree import copy_tree
from sandboxed_tools.workspace.depot import drop_depot, fill_depot, needs_depot, open_depot
from sandboxed_tools.workspace.file_time import file_time_ns
from sandboxed_tools.workspace.layers import Layer, LowerTree, confined
from sandboxed_tools.workspace.overlay_marks import remove_marks
from sandboxed_tools.workspace.plan import Plan, folder_times, restore_times
from sandboxed_tools.workspace.remove import remove_tree
from sandboxed_tools.workspace.renames import exchange_names
from sandboxed_tools.workspace.steps import Blocked, Folders, OnStep, Present, steps_for

__all__ = ["Landed", "Landing"]

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class Landed:
    """What became of it, and what somebody made impossible: paths, with the reason."""

    change_set: ChangeSet
    is_done: bool
    blocked: tuple[tuple[bytes, str], ...] = ()


@dataclass(slots=True)
class Landing:
    """One set on its way into the workspace, or back. The workspace must be locked.

    ``upper`` and ``workspace`` are open folders. Every method may raise OSError when the disk
    fails; the set then says what is still to be made good by :meth:`recover`.
    """

    store: ChangeStore
    change_set: ChangeSet
    upper: int
    workspace: int
    on_step: OnStep
    plan: Plan = field(init=False)

    def __post_init__(self) -> None:
        self.plan = Plan.read(self._plan_path) or Plan()

    @property
    def _folder(self) -> Path:
        return self.store.upper(self.change_set.id).parent

    @property
    def _plan_path(self) -> Path:
        return self._folder / "plan.json"

    def apply(self, seen: Mapping[bytes, Present | None]) -> Landed:
        """Bring everything in, or take everything back.

        ``seen`` is what the workspace was found to hold when the set was checked: only that is
        replaced. Where it does not speak of a path, what is there now is.
        """
        if needs_depot(self.upper, self.workspace):
            self._fill("applying", Plan(depot=True, is_filling=True), seen)
        else:
            self._start("applying", self._new_plan(self.change_set.changes, seen))
        return self._forward(was_cut_off=False)

    def undo(self) -> Landed:
        """Put back what was replaced."""
        if needs_depot(self.upper, self.workspace):
            self._fill("undoing", replace(self.plan, depot=True, is_filling=True), {})
        else:
            self._start("undoing", self.plan)
        return self._backward("undone", was_cut_off=False)

    def recover(self) -> Landed:
        """Go on where a process ended that was applying or undoing the set."""
        applying = self.change_set.status == "applying"
        if not self.plan.steps or self.plan.is_filling:
            # The plan is on the disk before the first step is taken: none was.
            drop_depot(self.workspace, self.change_set.id)
            if self.plan.is_filling:
                restore_times(self.plan.times, self.workspace)
                replace(self.plan, is_filling=False).write(self._plan_path)
            return self._end("held" if applying else "applied")
        if self.plan.depot and not self._has_depot():
            # The depot goes last, after all steps were taken, or all taken back.
            if self._is_in():
                return self._end("applied")
            restore_times(self.plan.times, self.workspace)
            return self._end("held" if applying else "undone")
        return self._forward() if applying else self._backward("undone")

    def _start(self, status: SetStatus, plan: Plan) -> None:
        self.on_step()
        self.plan = plan
        plan.write(self._plan_path)
        self.on_step()
        self.change_set = replace(self.change_set, status=status)
        self.store.save_state(self.change_set, sync=False)
        sync_file_system(self.upper)

    def _fill(self, status: SetStatus, plan: Plan, seen: Mapping[bytes, Present | None]) -> None:
        """Start with a depot: filling it comes after the state, so that recovery looks for it."""
        self._start(status, replace(plan, times=plan.times or folder_times((), self.workspace)))
        self.on_step()
        # What the call made has the workspace's owner already; what it replaced keeps its own.
        depot = fill_depot(self.workspace, self.change_set.id, self.upper, owner=None)
        try:
            with LowerTree((Layer(depot),)) as content:
                if status == "applying":
                    changes = tuple(_with_inode(item, content) for item in self.change_set.changes)
                    plan = self._new_plan(changes, seen)
                else:
                    plan = _with_present(plan, content)
            os.utime(self.workspace, ns=self.plan.times[0][1:])
        finally:
            os.close(depot)
        self.on_step()
        sync_file_system(self.workspace)
        self.plan = replace(plan, depot=True, is_filling=False)
        self.plan.write(self._plan_path)
        sync_file_system(self.upper)

    def _new_plan(self, changes: tuple[Change, ...], seen: Mapping[bytes, Present | None]) -> Plan:
        with LowerTree((Layer(self.workspace),)) as host:

            def present_at(item: PlacedChange) -> Present | None:
                if item.change.path in seen:
                    return seen[item.change.path]
                found = host.find(item.parts)
                return None if found is None else Present.of(found.info)

            steps = steps_for(changes, present_at=present_at)
        times = folder_times(steps, self.workspace)
        if self.plan.is_filling:
            times = (self.plan.times[0], *times[1:])
        return Plan(steps, times)

    def _forward(self, *, was_cut_off: bool = True) -> Landed:
        try:
            with self._pairs(was_cut_off=was_cut_off) as folders:
                for step in self.plan.steps:
                    step.do(folders, self.on_step)
        except (Blocked, OSError) as error:
            landed = self._backward("held")
            if isinstance(error, OSError):
                raise
            why = ((error.args[0], "it was changed while it was applied"), *landed.blocked)
            return replace(landed, is_done=False, blocked=why)
        self.on_step()
        remove_marks(self.workspace, self.change_set.changes)
        sync_file_system(self.workspace)
        self.on_step()
        if self.plan.depot:
            self._bring_back("applied")
        for replaced in self.change_set.replaces:
            # They hold further links to what is in the workspace now.
            self.store.remove(replaced)
        return self._end("applied")

    def _backward(self, to: Literal["held", "undone"], *, was_cut_off: bool = True) -> Landed:
        blocked = []
        full: OSError | None = None
        with self._pairs(was_cut_off=was_cut_off) as folders:
            for step in reversed(self.plan.steps):
                try:
                    step.take_back(folders, self.on_step)
                except Blocked:
                    reason = "somebody changed it meanwhile; it was left as it is"
                    blocked.append((step.path, reason))
                except OSError as error:
                    if error.errno not in _FULL:
                        raise
                    # What it lacks room for is a whiteout in the store: the workspace comes first.
                    full = full or error
        if full is not None:
            raise full
        if self.plan.depot and (to == "undone" or blocked):
            self._bring_back("undone")
        elif self.plan.depot:
            drop_depot(self.workspace, self.change_set.id)
        restore_times(self.plan.times, self.workspace)
        self.on_step()
        sync_file_system(self.workspace)
        return replace(self._end(to), is_done=not blocked, blocked=tuple(blocked))

    def _end(self, status: SetStatus) -> Landed:
        now_ns = file_time_ns(self.store.folder)
        if self.plan.depot:
            now_ns = max(now_ns, _stamp(self.workspace))
        self.change_set = replace(
            self.change_set, status=status, decided_s=time.time(), settled_ns=now_ns
        )
        self.store.save_state(self.change_set, sync=True)
        return Landed(self.change_set, is_done=True)

    @contextmanager
    def _pairs(self, *, was_cut_off: bool) -> Iterator[Folders]:
        place = open_depot(self.workspace, self.change_set.id) if self.plan.depot else None
        # The set got its id when the call had ended.
        salt = self.change_set.id.encode()
        upper = self.upper if place is None else place
        try:
            with Folders(upper, self.workspace, salt=salt, was_cut_off=was_cut_off) as folders:
                yield folders
        finally:
            if place is not None:
                os.close(place)

    def _has_depot(self) -> bool:
        place = open_depot(self.workspace, self.change_set.id)
        if place is not None:
            os.close(place)
        return place is not None

    def _is_in(self) -> bool:
        """Whether the workspace has what the first step brings."""
        with LowerTree((Layer(self.workspace),)) as host:
            step = self.plan.steps[0]
            found = host.find(step.parts)
            if step.kind == "mode":
                return found is not None and stat.S_IMODE(found.info.st_mode) == step.mode_after
            now = (found.info.st_ino, found.info.st_mtime_ns) if found is not None else None
            return now == step.staged

    def _bring_back(self, status: SetStatus) -> None:
        """Keep in the store what the depot holds now, and remove the depot."""
        new = self._folder / "upper.new"
        remove_tree(new)
        new.mkdir(mode=0o700)
        place = open_depot(self.workspace, self.change_set.id)
        if place is None:
            raise FileNotFoundError("the depot was removed by somebody")
        try:
            copy_tree(place, new, owner=None)
        finally:
            os.close(place)
        self._refresh(new, status)
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            exchange_names(folder, b"upper", b"upper.new")
        finally:
            os.close(folder)
        remove_tree(new)
        self.on_step()
        drop_depot(self.workspace, self.change_set.id)
        restore_times(self.plan.times[:1], self.workspace)
        self.on_step()

    def _refresh(self, new: Path, status: SetStatus) -> None:
        """Copies have other inodes: bring the set's facts up to date with them."""
        content = os.open(new, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with (
                LowerTree((Layer(content),)) as kept,
                LowerTree((Layer(self.workspace),)) as host,
            ):
                after = host if status == "applied" else kept
                changes = [_with_inode(change, after) for change in self.change_set.changes]
                if status != "applied":
                    _leave_whiteouts(content, changes)
                    changes = [_with_before(change, host) for change in changes]
        finally:
            os.close(content)
        self.change_set = replace(self.change_set, changes=tuple(changes))
        self.store.save_changes(self.change_set)


def _stamp(workspace_fd: int) -> int:
    return os.fstat(workspace_fd).st_ctime_ns


def _with_present(plan: Plan, content: LowerTree) -> Plan:
    """The plan with the inodes that what was replaced has in the depot."""
    steps = []
    for step in plan.steps:
        found = content.find(step.parts) if step.kind not in ("mode", "made") else None
        if found is not None:
            step = replace(step, present=(found.info.st_ino, found.info.st_mtime_ns))
        steps.append(step)
    return replace(plan, steps=tuple(steps))


def _with_inode(change: Change, tree: LowerTree) -> Change:
    if change.after is None or change.action == "mode":
        return change
    found = tree.find(change.parts)
    if found is None:
        return change
    info = found.info
    after = replace(change.after, inode=info.st_ino, mtime_ns=info.st_mtime_ns)
    return replace(change, after=after)


def _with_before(change: Change, host: LowerTree) -> Change:
    found = host.find(change.parts)
    before = change.before
    if before is None or found is None:
        return change
    info = found.info
    if before.kind == "folder" and change.action != "mode":
        facts = folder_facts(host, change.parts, info)
        return replace(change, before=replace(facts, entries=before.entries))
    return replace(change, before=replace(before, inode=info.st_ino, ctime_ns=info.st_ctime_ns))


def _leave_whiteouts(upper: int, changes: list[Change]) -> None:
    tree = confined(upper)
    for change in changes:
        if change.after is None:
            with suppress(FileExistsError):
                folder = tree.open_listing(change.parts[:-1])
                try:
                    os.mknod(change.parts[-1], stat.S_IFCHR, 0, dir_fd=folder)
                finally:
                    os.close(folder)
