"""Making new sets out of held ones: two into one, or one into two.

A new set says which ones it replaces, and from the moment at which it appears those are gone for
everybody who lists sets. Their folders go later, because a running call may still see them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sandboxed_tools.workspace.change import Change, ChangeSet
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.changeset import read_changes
from sandboxed_tools.workspace.layers import Layer, LowerTree
from sandboxed_tools.workspace.relink import lay_over, link_selected
from sandboxed_tools.workspace.spelling import Parts

__all__ = ["Split", "merge_oldest", "split_set"]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Split:
    """The two sets that one was made into."""

    chosen: ChangeSet
    rest: ChangeSet


def split_set(store: ChangeStore, change_set: ChangeSet, chosen: Callable[[bytes], bool]) -> Split:
    """Two held sets instead of one; neither part may be empty.

    Raises:
        OSError: nothing has changed.
    """
    mine = {change.path for change in change_set.changes if chosen(change.path)}
    others = {change.path for change in change_set.changes} - mine
    # The first one shows only once the second one has replaced the whole, in one step.
    rest = _part(store, change_set, others, waits_for=change_set.id)
    return Split(chosen=_part(store, change_set, mine, replaces=change_set.id), rest=rest)


def _part(
    store: ChangeStore,
    change_set: ChangeSet,
    paths: set[bytes],
    *,
    replaces: str | None = None,
    waits_for: str | None = None,
) -> ChangeSet:
    new_id = store.new_id()

    def selected(parts: Parts) -> bool:
        return b"/".join(parts) in paths

    with store.empty_draft(new_id) as draft, ExitStack() as stack:
        source = os.open(store.upper(change_set.id), _FOLDER)
        stack.callback(os.close, source)
        target = os.open(draft / "upper", _FOLDER)
        stack.callback(os.close, target)
        gone = tuple(
            change.parts
            for change in change_set.changes
            if change.path in paths and change.after is None
        )
        link_selected(source, target, selected, deleted=gone)
        with LowerTree((Layer(target),)) as upper:
            changes = tuple(
                _with_inode(change, upper) for change in change_set.changes if change.path in paths
            )
            added = {change.path for change in changes}
            parents = tuple(
                _with_inode(change, upper)
                for change in change_set.changes
                if change.path not in added
                and change.action == "added"
                and any(path.startswith(change.path + b"/") for path in paths)
            )
        part = replace(
            change_set,
            id=new_id,
            changes=tuple(sorted((*changes, *parents), key=lambda change: change.parts)),
            replaces=() if replaces is None else (*change_set.replaces, replaces),
            waits_for=waits_for,
        )
        store.publish(draft, part)
    return part


def _with_inode(change: Change, upper: LowerTree) -> Change:
    found = upper.find(change.parts)
    if change.after is None or change.action == "mode" or found is None:
        return change
    after = replace(change.after, inode=found.info.st_ino, mtime_ns=found.info.st_mtime_ns)
    return replace(change, after=after)


def merge_oldest(store: ChangeStore, *, workspace: Path, session: str) -> ChangeSet:
    """One held set instead of the two oldest of a session, with what both change together.

    Raises:
        OSError, TreeMoved: nothing has changed.
    """
    first, second = (
        store.get(state.id) for state in store.pending(workspace=workspace, session=session)[:2]
    )
    new_id = store.new_id()
    with store.empty_draft(new_id) as draft, ExitStack() as stack:
        target = os.open(draft / "upper", _FOLDER)
        stack.callback(os.close, target)
        for item in (first, second):
            fd = os.open(store.upper(item.id), _FOLDER)
            stack.callback(os.close, fd)
            lay_over(fd, target)
        host = os.open(workspace, _FOLDER)
        stack.callback(os.close, host)
        owner = os.fstat(host)
        with LowerTree((Layer(host),)) as lower:
            changes = read_changes(
                target,
                lower,
                owner=(owner.st_uid, owner.st_gid),
                began_ns=first.began_ns,
                # Both are kept already; a session must not be stopped by what it was given.
                max_paths_bytes=sys.maxsize,
            )
        os.fchown(target, owner.st_uid, owner.st_gid)
        merged = replace(
            second,
            id=new_id,
            began_ns=first.began_ns,
            ended_by_itself=first.ended_by_itself and second.ended_by_itself,
            changes=changes,
            layers=first.layers,
            notes=tuple(dict.fromkeys((*first.notes, *second.notes))),
            replaces=(*first.replaces, *second.replaces, first.id, second.id),
        )
        store.publish(draft, merged)
    return merged
