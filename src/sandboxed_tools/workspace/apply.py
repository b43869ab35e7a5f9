"""Applying a change set to its workspace, whole or not at all, and undoing it.

First everything is checked, then the steps are written down, then they are taken: each is a rename
between the stored folder and the workspace. A process that dies in between leaves a set that says
so, and :func:`recover` finishes what it began, or takes it back where somebody was faster. The disk
is synced twice, before the first step and after the last, not for each file.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Final

from sandboxed_tools.errors import InvalidWorkspace, SandboxedToolsError
from sandboxed_tools.workspace.change import HALF_DONE, ChangeSet
from sandboxed_tools.workspace.change_selection import selection
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.check import Problem, check_set, later_edits
from sandboxed_tools.workspace.landing import Landed, Landing
from sandboxed_tools.workspace.regroup import Split, split_set
from sandboxed_tools.workspace.root import check_workspace
from sandboxed_tools.workspace.steps import OnStep, Present
from sandboxed_tools.workspace.workspace_lock import workspace_lock

__all__ = ["Decision", "apply_set", "discard_set", "recover", "undo_set"]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a wish: whether it was ``done``, and if not, what spoke against it.

    ``rest`` is the id of the held set with what was not chosen, where a set was split.
    """

    done: bool
    change_set: ChangeSet
    problems: tuple[Problem, ...] = ()
    rest: str | None = None


def _nothing() -> None:
    return None


def apply_set(
    store: ChangeStore,
    change_set_id: str,
    *,
    only: tuple[str, ...] = (),
    excluding: tuple[str, ...] = (),
    force: bool = False,
    allow_protected: bool = False,
    protected: tuple[str, ...] = (),
    on_step: OnStep = _nothing,
) -> Decision:
    """Bring a held or undone set into its workspace, all of it or nothing. Blocking.

    With ``only`` or ``excluding``, which are patterns of paths, a held set is split in two by
    hand: what they choose is applied, and the rest stays held under an id of its own. ``force``
    overrides conflicts, ``allow_protected`` is the explicit yes to protected paths; nothing
    overrides what is refused.

    Raises:
        ChangeSetNotFound, InvalidInput, InvalidWorkspace, Overloaded: nothing was changed.
        OSError: the disk failed, and everything was taken back as far as it let us.
    """
    _finish(store, change_set_id)
    with _opened(store, change_set_id) as (change_set, upper, workspace):
        if change_set.status not in ("held", "undone"):
            return Decision(change_set.status == "applied", change_set)
        paths = [item.path for item in change_set.changes]
        chosen = selection(paths, only=only, excluding=excluding)
        part = replace(
            change_set, changes=tuple(item for item in change_set.changes if chosen(item.path))
        )
        checked = check_set(
            part,
            upper_fd=upper,
            workspace_fd=workspace,
            protected=protected,
            applied_layers=_applied(store, change_set),
            left_behind=frozenset(path for path in paths if not chosen(path)),
        )
        against = tuple(
            problem
            for problem in checked.problems
            if not (problem.kind == "conflict" and force)
            and not (problem.kind == "protected" and allow_protected)
        )
        if against or not part.changes:
            return Decision(False, change_set, against)
        if len(part.changes) < len(change_set.changes):
            parts = split_set(store, change_set, chosen)
            return _apply_part(store, parts, checked.present, workspace, on_step)
        landing = Landing(store, change_set, upper, workspace, on_step)
        return _landed(landing.apply(checked.present))


def _apply_part(
    store: ChangeStore,
    parts: Split,
    present: Mapping[bytes, Present | None],
    workspace: int,
    on_step: OnStep,
) -> Decision:
    upper = os.open(store.upper(parts.chosen.id), _FOLDER)
    try:
        landed = Landing(store, parts.chosen, upper, workspace, on_step).apply(present)
    finally:
        os.close(upper)
    return replace(_landed(landed), rest=parts.rest.id)


def undo_set(
    store: ChangeStore, change_set_id: str, *, force: bool = False, on_step: OnStep = _nothing
) -> Decision:
    """Put back exactly what an applied set replaced, unless later edits would be lost. Blocking.

    The set is kept as ``undone`` and can be applied again. ``force`` gives up later edits of the
    set's own entries. Raises as :func:`apply_set`.
    """
    _finish(store, change_set_id)
    with _opened(store, change_set_id) as (change_set, upper, workspace):
        if change_set.status != "applied":
            return Decision(change_set.status == "undone", change_set)
        landing = Landing(store, change_set, upper, workspace, on_step)
        whole = frozenset(step.path for step in landing.plan.steps if step.kind in ("add", "swap"))
        problems = later_edits(change_set, workspace_fd=workspace, whole=whole)
        if problems and not force:
            return Decision(False, change_set, problems)
        return _landed(landing.undo())


def discard_set(store: ChangeStore, change_set_id: str) -> Decision:
    """Forget a set: a held one is thrown away, an applied one can no longer be undone. Blocking.

    A set that later held sets build on stays. What is being decided about it at this moment is
    waited for, and what a dead process left half done is finished or taken back first: the set has
    what belongs into the workspace.

    Raises:
        ChangeSetNotFound: there is none of this id.
        InvalidWorkspace, Overloaded, OSError: it cannot be finished now; it stays.
    """
    _finish(store, change_set_id)
    with workspace_lock(store.workspace_of(change_set_id)):
        change_set = store.get(change_set_id)
        above = [
            other.id
            for other in store.sets()
            if set(other.layers) & {change_set_id, *change_set.replaces} and other.status == "held"
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
    for state in store.sets():
        if state.status not in HALF_DONE:
            continue
        try:
            decisions.append(_recover_one(store, state.id, on_step))
        except (OSError, ValueError, KeyError, SandboxedToolsError) as error:
            _log.exception("change set %s cannot be recovered", state.id)
            problem = Problem(b"", "conflict", f"it cannot be recovered: {type(error).__name__}")
            decisions.append(Decision(False, store.get(state.id), (problem,)))
    return tuple(decisions)


def _finish(store: ChangeStore, change_set_id: str) -> None:
    """Go on with a set first that a dead process left half done."""
    if store.get(change_set_id).status in HALF_DONE:
        _recover_one(store, change_set_id, _nothing)


def _recover_one(store: ChangeStore, change_set_id: str, on_step: OnStep) -> Decision:
    """Go on where the process was that wrote the set's state."""
    with _opened(store, change_set_id) as (change_set, upper, workspace):
        # Asked again under the lock: it may have been somebody's who is alive and has finished.
        if change_set.status not in HALF_DONE:
            return Decision(True, change_set)
        return _landed(Landing(store, change_set, upper, workspace, on_step).recover())


def _landed(landed: Landed) -> Decision:
    problems = tuple(Problem(path, "conflict", reason) for path, reason in landed.blocked)
    return Decision(landed.is_done, landed.change_set, problems)


@contextmanager
def _opened(store: ChangeStore, change_set_id: str) -> Iterator[tuple[ChangeSet, int, int]]:
    """A set, its upper folder and its workspace, while nobody else decides about the latter.

    Raises:
        ChangeSetNotFound: there is none of this id.
        InvalidWorkspace: the folder may not be used, or another one is in its place.
    """
    place = store.workspace_of(change_set_id)
    with workspace_lock(place), ExitStack() as stack:
        change_set = store.get(change_set_id)
        workspace = os.open(check_workspace(os.fsdecode(place)), _FOLDER)
        stack.callback(os.close, workspace)
        if os.fstat(workspace).st_ino != change_set.workspace_inode:
            raise InvalidWorkspace("Another folder has taken the place of the workspace.")
        upper = os.open(store.upper(change_set_id), _FOLDER)
        stack.callback(os.close, upper)
        yield change_set, upper, workspace


def _applied(store: ChangeStore, change_set: ChangeSet) -> dict[str, int]:
    below = {change.layer for change in change_set.changes if change.layer is not None}
    found = store.sets() if below else ()
    return {
        name: item.settled_ns
        for item in found
        if item.status == "applied"
        for name in (item.id, *item.replaces)
    }
