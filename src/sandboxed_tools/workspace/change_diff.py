"""Showing what a change set does to the content of files, as unified diffs.

What is shown is foreign text: names and lines come from inside a sandbox. Callers pass it through
``tool.for_terminal`` or ``tool.for_model``.
"""

from __future__ import annotations

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
from sandboxed_tools.workspace.line_diff import unified_lines
from sandboxed_tools.workspace.spelling import one_line_name

__all__ = ["ChangeDiff", "diff_set"]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ESCAPES: Final = {byte: chr(byte) for byte in range(0x20, 0x7F)} | {
    **{ord(mark): f"\\{mark}" for mark in '"\\'},
    ord("\n"): r"\n",
    ord("\t"): r"\t",
}
MAX_DIFF_BYTES: Final = 1024 * 1024
"""Larger files are told by their sizes: a diff of them is read by nobody."""


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
        return _lines(facts.target + b"\n")
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
    return _lines(data)


def _lines(data: bytes) -> list[str]:
    """Lines with their line feeds: other characters that separate lines for some are text here."""
    *whole, rest = data.decode("utf-8", "surrogateescape").split("\n")
    return [*(f"{line}\n" for line in whole), *([rest] if rest else [])]


def _unified(change: Change, old: list[str], new: list[str]) -> str:
    text = []
    for line in unified_lines(old, new):
        text.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    if not text:
        return ""
    before = "/dev/null" if change.before is None else _quoted(b"a/" + change.path)
    after = "/dev/null" if change.after is None else _quoted(b"b/" + change.path)
    return "".join([f"--- {before}\n+++ {after}\n", *text])


def _quoted(path: bytes) -> str:
    """A name as git writes it in a diff: it cannot end its line and go on as another one."""
    name = os.fsdecode(path)
    if name.isprintable() and not any(mark in name for mark in '"\\'):
        return name
    return '"' + "".join(_ESCAPES.get(byte) or f"\\{byte:03o}" for byte in path) + '"'


def _notes(change: Change) -> Iterator[str]:
    before, after = change.before, change.after
    if change.renamed is not None:
        word = "moved from" if after is not None else "moved to"
        yield f"{word} {one_line_name(change.renamed)}"
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
