"""Making a change set out of what a call left in its view, and doing with it what was asked for."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sandboxed_tools.errors import InvalidWorkspace
from sandboxed_tools.tool.mounts import ChangesMode
from sandboxed_tools.tool.process import ProcessName
from sandboxed_tools.tool.result import ChangeSummary
from sandboxed_tools.workspace.apply import apply_set
from sandboxed_tools.workspace.change import Change, ChangeSet
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.changeset import read_changes
from sandboxed_tools.workspace.layers import Layer, LowerTree

__all__ = ["Origin", "hold_changes", "is_current", "layers_of", "settle_changes"]

_log = logging.getLogger(__name__)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Origin:
    """What a view was made of: the workspace, whose it is, and the held sets that lay over it.

    ``layers`` are the ids of these sets, oldest first. ``began_ns`` is the file system's time at
    which the call began.
    """

    workspace: Path
    inode: int
    owner: tuple[int, int]
    changes: ChangesMode
    session: str | None
    layers: tuple[str, ...]
    began_ns: int
    protected: tuple[str, ...] = ()


@contextmanager
def layers_of(origin: Origin, store: ChangeStore) -> Iterator[LowerTree]:
    """The merged lower layers of a view, as the host reads them.

    Raises:
        InvalidWorkspace: another folder is in the workspace's place.
    """
    with ExitStack() as stack:
        layers = []
        for held in reversed(origin.layers):
            fd = os.open(store.upper(held), _FOLDER)
            stack.callback(os.close, fd)
            layers.append(Layer(fd, held))
        fd = os.open(origin.workspace, _FOLDER)
        stack.callback(os.close, fd)
        if os.fstat(fd).st_ino != origin.inode:
            raise InvalidWorkspace("Another folder has taken the place of the workspace.")
        yield stack.enter_context(LowerTree((*layers, Layer(fd))))


def is_current(origin: Origin) -> bool:
    """Whether a view made now would be made of the same: the same folder, the same held sets."""
    try:
        inode = os.stat(origin.workspace, follow_symlinks=False).st_ino
    except OSError:
        return False
    if origin.session is None:
        return inode == origin.inode
    pending = ChangeStore().pending(workspace=origin.workspace, session=origin.session)
    return inode == origin.inode and tuple(item.id for item in pending) == origin.layers


def settle_changes(origin: Origin, upper: Path, *, ended_by_itself: bool) -> ChangeSummary:
    """Hold, apply or discard what ``upper`` holds. Blocking, O(changes).

    A call that was stopped is held where it would have been applied. What must not be applied as it
    is stays held, whole.

    Raises:
        InvalidWorkspace, Overloaded, OSError, TreeMoved: nothing was applied, or held.
    """
    if origin.changes == "discard":
        return ChangeSummary(decision="discarded")
    if not os.listdir(upper):
        return ChangeSummary(decision="none")
    store = ChangeStore()
    change_set = hold_changes(store, origin, upper, ended_by_itself=ended_by_itself)
    if change_set is None:
        return ChangeSummary(decision="none")
    applied = False
    if origin.changes == "apply" and ended_by_itself:
        try:
            applied = apply_set(store, change_set.id, protected=origin.protected).done
        except OSError:
            # The set is kept, and whoever decides about it next finishes what was begun.
            _log.exception("change set %s could not be applied", change_set.id)
    return ChangeSummary(
        decision="applied" if applied else "held",
        id=change_set.id,
        added=change_set.count("added"),
        modified=len(change_set.changes) - change_set.count("added") - change_set.count("deleted"),
        deleted=change_set.count("deleted"),
    )


def hold_changes(
    store: ChangeStore, origin: Origin, upper: Path, *, ended_by_itself: bool
) -> ChangeSet | None:
    """Take ``upper`` over into the store as a held set; ``None`` if nothing differs.

    Raises:
        InvalidWorkspace, OSError, TreeMoved: nothing is kept.
    """
    change_set_id = store.new_id()
    with store.draft(upper, change_set_id) as draft:
        fd = os.open(draft / "upper", _FOLDER)
        try:
            with layers_of(origin, store) as lower:
                changes = read_changes(fd, lower, owner=origin.owner, began_ns=origin.began_ns)
        finally:
            os.close(fd)
        if not changes:
            return None
        # The folder of the set is as private as the state folder; the layer's mode shows inside.
        os.chown(draft / "upper", *origin.owner)
        change_set = ChangeSet(
            id=change_set_id,
            workspace=os.fsencode(origin.workspace),
            workspace_inode=origin.inode,
            session=origin.session,
            created_s=_after_all(store, time.time()),
            began_ns=origin.began_ns,
            ended_by_itself=ended_by_itself,
            changes=changes,
            layers=origin.layers,
            boot=ProcessName.current().boot,
            notes=_notes(changes),
        )
        store.publish(draft, change_set)
    return change_set


def _after_all(store: ChangeStore, now_s: float) -> float:
    """Sets are layered by their age, so a clock that was set back must not disturb the order."""
    newest = max((item.created_s for item in store.sets()), default=0.0)
    return max(now_s, newest + 1e-3)


def _notes(changes: tuple[Change, ...]) -> tuple[str, ...]:
    dropped = sum(change.dropped_mode != 0 for change in changes)
    return (f"{dropped} files lost their set-id bits",) if dropped else ()
