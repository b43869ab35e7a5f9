"""Applying a change set to its workspace, whole or not at all, and undoing it.

First everything is checked, then the steps are written down, then they are taken: each is a rename
between the stored folder and the workspace. A process that dies in between leaves a set that says
so, and :func:`recover` finishes what it began, or takes it back where somebody was faster. The disk
is synced twice, before the first step and after the last, not for each file.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from sandboxed_tools.errors import InvalidWorkspace, SandboxedToolsError
from sandboxed_tools.workspace.change import ChangeSet, SetStatus
from sandboxed_tools.workspace.change_store import (
    ChangeStore,
    sync_file_system,
    workspace_lock,
)
from sandboxed_tools.workspace.check import Problem, check_set, later_edits
from sandboxed_tools.workspace.file_time import file_time_ns
from sandboxed_tools.workspace.layers import Layer, LowerTree, confined
from sandboxed_tools.workspace.overlay_marks import remove_marks
from sandboxed_tools.workspace.root import check_workspace
from sandboxed_tools.workspace.spelling import Parts
from sandboxed_tools.workspace.steps import Blocked, Folders, OnStep, Step, steps_for

__all__ = ["Decision", "apply_set", "discard_set", "recover", "undo_set"]

_PLAN: Final = "plan.json"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a wish: whether it was ``done``, and if not, what spoke against it."""

    done: bool
    change_set: ChangeSet
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class _Plan:
    """The steps, and the times of the folders that they touch."""

    steps: tuple[Step, ...]
    times: dict[bytes, tuple[int, int]]


def _nothing() -> None:
    return None


def apply_set(
    store: ChangeStore,
    change_set_id: str,
    *,
    force: bool = False,
    allow_protected: bool = False,
    protected: tuple[str, ...] = (),
    on_step: OnStep = _nothing,
) -> Decision:
    """Bring a held or undone set into its workspace, all of it or nothing. Blocking.

    ``force`` overrides conflicts, ``allow_protected`` is the explicit yes to protected paths;
    nothing overrides what is refused.

    Raises:
        ChangeSetNotFound, InvalidWorkspace, Overloaded: nothing was changed.
        OSError: the disk failed, and everything was taken back as far as it let us.
    """
    change_set = store.get(change_set_id)
    with _opened(store, change_set) as (upper, workspace):
        change_set = store.get(change_set_id)
        if change_set.status not in ("held", "undone"):
            return Decision(change_set.status == "applied", change_set)
        if not change_set.changes:
            return Decision(True, _settled(store, change_set, "applied"))
        problems = check_set(
            change_set,
            upper_fd=upper,
            workspace_fd=workspace,
            protected=protected,
            applied_layers=_applied(store, change_set),
        )
        against = tuple(
            problem
            for problem in problems
            if not (problem.kind == "conflict" and force)
            and not (problem.kind == "protected" and allow_protected)
        )
        if against:
            return Decision(False, change_set, against)
        plan = _plan(change_set, workspace)
        on_step()
        _write_plan(store, change_set, plan)
        on_step()
        change_set = replace(change_set, status="applying")
        store.save_state(change_set, sync=False)
        sync_file_system(upper)
        return _forward(store, change_set, plan, upper, workspace, on_step)


def undo_set(
    store: ChangeStore, change_set_id: str, *, force: bool = False, on_step: OnStep = _nothing
) -> Decision:
    """Put back exactly what an applied set replaced, unless later edits would be lost. Blocking.

    The set is kept as ``undone`` and can be applied again. ``force`` gives up later edits of the
    set's own entries. Raises as :func:`apply_set`.
    """
    change_set = store.get(change_set_id)
    with _opened(store, change_set) as (upper, workspace):
        change_set = store.get(change_set_id)
        if change_set.status != "applied":
            return Decision(change_set.status == "undone", change_set)
        plan = _read_plan(store, change_set)
        whole = frozenset(step.path for step in plan.steps if step.kind in ("add", "swap"))
        problems = later_edits(change_set, workspace_fd=workspace, whole=whole)
        if problems and not force:
            return Decision(False, change_set, problems)
        change_set = replace(change_set, status="undoing")
        store.save_state(change_set, sync=False)
        sync_file_system(upper)
        return _backward(store, change_set, plan, upper, workspace, on_step, to="undone")


def discard_set(store: ChangeStore, change_set_id: str) -> Decision:
    """Forget a set: a held one is thrown away, an applied one can no longer be undone. Blocking.

    A set that later held sets build on stays.

    Raises:
        ChangeSetNotFound: there is none of this id.
    """
    change_set = store.get(change_set_id)
    above = [
        other.id
        for other in store.list()
        if change_set_id in other.layers and other.status == "held"
    ]
    if above:
        reason = f"the change set {above[0]} builds on it: decide that first"
        return Decision(False, change_set, (Problem(b"", "conflict", reason),))
    store.remove(change_set_id)
    return Decision(True, change_set)


def recover(store: ChangeStore, *, on_step: OnStep = _nothing) -> tuple[Decision, ...]:
    """Finish or take back whatever a dead process left half done. Blocking; call it at the start.

    A set whose workspace is gone, or that neither can be finished nor taken back, is reported and
    stays as it is.
    """
    decisions = []
    for state in store.list():
        if state.status not in ("applying", "undoing"):
            continue
        change_set = store.get(state.id)
        try:
            decisions.append(_recover_one(store, change_set, on_step))
        except (OSError, ValueError, KeyError, SandboxedToolsError) as error:
            _log.exception("change set %s cannot be recovered", change_set.id)
            problem = Problem(b"", "conflict", f"it cannot be recovered: {type(error).__name__}")
            decisions.append(Decision(False, change_set, (problem,)))
    return tuple(decisions)


def _recover_one(store: ChangeStore, change_set: ChangeSet, on_step: OnStep) -> Decision:
    """Go on where the process was that wrote the set's state."""
    with _opened(store, change_set) as (upper, workspace):
        # Asked again under the lock: it may have been somebody's who is alive and has finished.
        change_set = store.get(change_set.id)
        if change_set.status not in ("applying", "undoing"):
            return Decision(True, change_set)
        try:
            plan = _read_plan(store, change_set)
        except (FileNotFoundError, ValueError):
            # Written and synced before the first step: without it, none was taken.
            return Decision(True, _settled(store, change_set, "held"))
        if change_set.status == "applying":
            return _forward(store, change_set, plan, upper, workspace, on_step)
        return _backward(store, change_set, plan, upper, workspace, on_step, to="undone")


@contextmanager
def _opened(store: ChangeStore, change_set: ChangeSet) -> Iterator[tuple[int, int]]:
    """The set's upper folder and its workspace, open, while nobody else decides about the latter.

    Raises:
        InvalidWorkspace: the folder may not be used, or another one is in its place.
    """
    with workspace_lock(change_set.workspace):
        path = check_workspace(os.fsdecode(change_set.workspace))
        workspace = os.open(path, _FOLDER)
        try:
            if os.fstat(workspace).st_ino != change_set.workspace_inode:
                raise InvalidWorkspace("Another folder has taken the place of the workspace.")
            upper = os.open(store.upper(change_set.id), _FOLDER)
            try:
                yield upper, workspace
            finally:
                os.close(upper)
        finally:
            os.close(workspace)


def _applied(store: ChangeStore, change_set: ChangeSet) -> dict[str, int]:
    below = {change.layer for change in change_set.changes if change.layer is not None}
    found = (item for item in store.list() if item.id in below) if below else iter(())
    return {item.id: item.settled_ns for item in found if item.status == "applied"}


def _plan(change_set: ChangeSet, workspace: int) -> _Plan:
    with LowerTree((Layer(workspace),)) as host:

        def inode(parts: Parts) -> int | None:
            found = host.find(parts)
            return None if found is None else found.info.st_ino

        steps = steps_for(change_set.changes, inode)
        times = {}
        for step in steps:
            parent = step.parts[:-1]
            found = host.find(parent) if parent else None
            info = found.info if found is not None else os.fstat(workspace)
            times[b"/".join(parent)] = (info.st_atime_ns, info.st_mtime_ns)
    return _Plan(steps, times)


def _forward(
    store: ChangeStore,
    change_set: ChangeSet,
    plan: _Plan,
    upper: int,
    workspace: int,
    on_step: OnStep,
) -> Decision:
    try:
        with Folders(upper, workspace) as folders:
            for step in plan.steps:
                step.do(folders, on_step)
    except (Blocked, OSError) as error:
        _backward(store, change_set, plan, upper, workspace, on_step, to="held")
        if isinstance(error, OSError):
            raise
        problem = Problem(error.args[0], "conflict", "it was changed while it was applied")
        return Decision(False, store.get(change_set.id), (problem,))
    on_step()
    remove_marks(workspace, change_set.changes)
    sync_file_system(workspace)
    on_step()
    return Decision(True, _settled(store, change_set, "applied"))


def _backward(
    store: ChangeStore,
    change_set: ChangeSet,
    plan: _Plan,
    upper: int,
    workspace: int,
    on_step: OnStep,
    *,
    to: Literal["held", "undone"],
) -> Decision:
    problems = []
    with Folders(upper, workspace) as folders:
        for step in reversed(plan.steps):
            try:
                step.take_back(folders, on_step)
            except Blocked:
                reason = "somebody changed it meanwhile; it was left as it is"
                problems.append(Problem(step.path, "conflict", reason))
    _restore_times(plan, workspace)
    on_step()
    sync_file_system(workspace)
    return Decision(not problems, _settled(store, change_set, to), tuple(problems))


def _restore_times(plan: _Plan, workspace: int) -> None:
    """Give the touched folders their times back, as far as they are still there."""
    tree = confined(workspace)
    for path, times in plan.times.items():
        with suppress(OSError):
            fd = tree.open_listing(tuple(path.split(b"/")) if path else ())
            try:
                os.utime(fd, ns=times)
            finally:
                os.close(fd)


def _settled(store: ChangeStore, change_set: ChangeSet, status: SetStatus) -> ChangeSet:
    now_ns = file_time_ns(store.folder)
    settled = replace(change_set, status=status, decided_s=time.time(), settled_ns=now_ns)
    store.save_state(settled, sync=True)
    return settled


def _plan_path(store: ChangeStore, change_set: ChangeSet) -> Path:
    return store.upper(change_set.id).with_name(_PLAN)


def _write_plan(store: ChangeStore, change_set: ChangeSet, plan: _Plan) -> None:
    times = {os.fsdecode(path): list(pair) for path, pair in plan.times.items()}
    data = {"steps": [step.to_json() for step in plan.steps], "times": times}
    # Not synced by itself: the whole file system is, before the first step.
    _plan_path(store, change_set).write_text(json.dumps(data), encoding="ascii")


def _read_plan(store: ChangeStore, change_set: ChangeSet) -> _Plan:
    data = json.loads(_plan_path(store, change_set).read_text(encoding="ascii"))
    times = {
        os.fsencode(path): (int(pair[0]), int(pair[1])) for path, pair in data["times"].items()
    }
    return _Plan(tuple(Step.from_json(item) for item in data["steps"]), times)
