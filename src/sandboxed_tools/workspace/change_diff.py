"""Showing what a change set does to the content of files, as unified diffs.

What is shown is foreign text: names and lines come from inside a sandbox. Callers pass it through
``tool.for_terminal`` or ``tool.for_model``.
"""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from sandboxed_tools.workspace.change import Change, ChangeSet, FileFacts
from sandboxed_tools.workspace.change_selection import selection
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.digest import open_to_read
from sandboxed_tools.workspace.layers import Layer, LowerTree

__all__ = ["ChangeDiff", "diff_set"]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_DIFF_BYTES: Final = 1024 * 1024
"""Larger files are told by their sizes: a diff of them costs seconds and is read by nobody."""


@dataclass(frozen=True, slots=True)
class ChangeDiff:
    """One change, with the lines that differ.

    ``text`` is a unified diff, empty where there are no lines to show; ``note`` says in words what
    happened apart from lines: a mode, a link, a binary file's sizes, a move.
    """

    change: Change
    text: str
    note: str


def diff_set(
    store: ChangeStore,
    change_set: ChangeSet,
    *,
    only: tuple[str, ...] = (),
    excluding: tuple[str, ...] = (),
) -> Iterator[ChangeDiff]:
    """The diffs of a set, change by change; of an applied one, what it did. Blocking, lazy.

    Raises:
        InvalidInput: the patterns cannot be used, or name a path that the set does not have.
        OSError: the set or its workspace cannot be opened.
    """
    paths = [change.path for change in change_set.changes]
    chosen = selection(paths, only=only, excluding=excluding)
    with _sides(store, change_set) as (before, after):
        for change in change_set.changes:
            if chosen(change.path):
                yield _diff(change, before, after)


@contextmanager
def _sides(store: ChangeStore, change_set: ChangeSet) -> Iterator[tuple[LowerTree, LowerTree]]:
    """Where the old and the new content is: in the workspace and the store, or the other way."""
    with ExitStack() as stack:

        def layer(path: bytes | os.PathLike[str], held: str | None = None) -> Layer:
            fd = os.open(path, _FOLDER)
            stack.callback(os.close, fd)
            return Layer(fd, held)

        kept = (layer(store.upper(change_set.id), change_set.id),)
        known = {state.id for state in store.sets() if state.status == "held"}
        below = [name for name in reversed(change_set.layers) if name in known]
        host = (*(layer(store.upper(name), name) for name in below), layer(change_set.workspace))
        sides = (kept, host) if change_set.status == "applied" else (host, kept)
        before, after = (stack.enter_context(LowerTree(side)) for side in sides)
        yield before, after


def _diff(change: Change, before: LowerTree, after: LowerTree) -> ChangeDiff:
    old = _content(change, change.before, before)
    new = _content(change, change.after, after)
    notes = [*_notes(change)]
    if change.renamed is not None and change.after is not None:
        return ChangeDiff(change, "", "; ".join(notes))
    if old is None or new is None:
        notes += _sizes(change)
        return ChangeDiff(change, "", "; ".join(notes))
    return ChangeDiff(change, _unified(change, old, new), "; ".join(notes))


def _content(change: Change, facts: FileFacts | None, tree: LowerTree) -> list[str] | None:
    """The lines of one side; none for a side without lines, ``None`` where they are not text."""
    if facts is None or facts.kind in ("folder", "fifo", "socket", "device"):
        return []
    if facts.target is not None:
        return [os.fsdecode(facts.target) + "\n"]
    if facts.size > MAX_DIFF_BYTES:
        return None
    found = tree.find(change.parts)
    if found is None or not stat.S_ISREG(found.info.st_mode):
        return None
    try:
        fd = open_to_read(found.name, dir_fd=found.dir_fd)
    except OSError:
        return None
    with open(fd, "rb") as file:
        data = file.read(MAX_DIFF_BYTES + 1)
    if b"\0" in data or len(data) > MAX_DIFF_BYTES:
        return None
    return data.decode("utf-8", "surrogateescape").splitlines(keepends=True)


def _unified(change: Change, old: list[str], new: list[str]) -> str:
    name = os.fsdecode(change.path)
    lines = difflib.unified_diff(
        old,
        new,
        fromfile=f"a/{name}" if change.before is not None else "/dev/null",
        tofile=f"b/{name}" if change.after is not None else "/dev/null",
    )
    text = []
    for line in lines:
        text.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(text)


def _notes(change: Change) -> Iterator[str]:
    before, after = change.before, change.after
    if change.renamed is not None:
        word = "moved from" if after is not None else "moved to"
        yield f"{word} {os.fsdecode(change.renamed)}"
    if before is not None and after is not None:
        if before.kind != after.kind:
            yield f"a {before.kind} became a {after.kind}"
        elif before.mode != after.mode and after.kind != "symlink":
            yield f"mode {before.mode:04o} became {after.mode:04o}"
    elif after is not None and after.kind != "file":
        yield f"new {after.kind}"
    elif before is not None and before.kind == "folder":
        yield f"folder with {before.entries} entries deleted"
    if change.dropped_mode:
        yield "set-id bits dropped"
    if change.is_late:
        yield "changed in the workspace during the call, too"


def _sizes(change: Change) -> Iterator[str]:
    before, after = change.before, change.after
    if before is not None and after is not None:
        yield f"binary or large: {before.size} bytes became {after.size}"
    elif after is not None:
        yield f"binary or large: {after.size} bytes"
    elif before is not None:
        yield f"binary or large: {before.size} bytes deleted"
