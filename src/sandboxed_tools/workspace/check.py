"""Whether a change set may be applied as it is, decided on the host by what is there now.

Nothing from inside is believed: what is checked is the stored content itself, reached without
following a link, against the workspace as it is at this moment.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from sandboxed_tools.tool.process import ProcessName
from sandboxed_tools.workspace.change import Change, ChangeSet, FileFacts, kind_of
from sandboxed_tools.workspace.change_paths import PlacedChange, placed
from sandboxed_tools.workspace.changeset import entries_below, folder_facts
from sandboxed_tools.workspace.digest import digest_file, open_to_read
from sandboxed_tools.workspace.layers import Found, Layer, LowerTree
from sandboxed_tools.workspace.protected import Protection, holds_protected
from sandboxed_tools.workspace.spelling import Parts, one_line_name
from sandboxed_tools.workspace.steps import Present

__all__ = ["Checked", "Problem", "ProblemKind", "check_set", "later_edits"]

ProblemKind = Literal["refused", "conflict", "protected"]
"""``refused`` can never be applied; the others can, by an explicit word of the user."""

_PLAIN_KINDS: Final = ("file", "folder", "symlink")


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason not to apply a set: the path, what kind of reason, and the reason in words."""

    path: bytes
    kind: ProblemKind
    reason: str

    def __str__(self) -> str:
        return f"{one_line_name(self.path)}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Checked:
    """What speaks against a set, and what the workspace held where that was looked at."""

    problems: tuple[Problem, ...]
    present: Mapping[bytes, Present | None]


def check_set(
    change_set: ChangeSet,
    *,
    upper_fd: int,
    workspace_fd: int,
    protected: tuple[str, ...] = (),
    applied_layers: Mapping[str, int] = MappingProxyType({}),
    left_behind: frozenset[bytes] = frozenset(),
) -> Checked:
    """Everything that speaks against applying the set, in the order of its paths. Blocking.

    ``protected`` are further patterns, ``applied_layers`` the sets below this one that have been
    applied, with the file system's time when that was complete. ``left_behind`` are paths that the
    upper folder holds, too, and that do not come along.
    """
    with (
        LowerTree((Layer(upper_fd),)) as upper,
        LowerTree((Layer(workspace_fd),)) as host,
    ):
        changed = {change.path: change for change in change_set.changes}
        # There are file systems that do not tell HEAD from head.
        folded = {change.path.lower() for change in change_set.changes if change.after is not None}

        def was_there(parts: Parts) -> bool:
            return host.find(parts) is not None

        def is_there(parts: Parts) -> bool:
            path = b"/".join(parts)
            own = changed.get(path)
            if own is not None:
                return own.after is not None
            return path.lower() in folded or was_there(parts)

        def link_at(parts: Parts) -> bytes | None:
            own = changed.get(b"/".join(parts))
            if own is not None:
                return None if own.after is None else own.after.target
            found = host.find(parts)
            if found is None or not stat.S_ISLNK(found.info.st_mode):
                return None
            return os.readlink(found.name, dir_fd=found.dir_fd)

        # A power cut may have left files without the content that was never synced.
        verified = change_set.boot == ProcessName.current().boot
        problems: list[Problem] = []
        present: dict[bytes, Present | None] = {}
        protection = Protection(
            was_there=was_there, is_there=is_there, link_at=link_at, extra=protected
        )
        whole: int | None = None
        for item in placed(change_set.changes):
            change, parts = item.change, item.parts
            # Parents come first, and what is in a folder follows it at once.
            inside = whole is not None and item.shared >= whole
            if not inside:
                whole = len(parts) if _comes_whole(change, parts, host) else None
            problem = _stored_problem(change, parts, upper, verified=verified)
            if problem is None and _holds_more(change, parts, upper, changed, left_behind):
                problem = Problem(change.path, "refused", "more was kept than the set speaks of")
            if problem is None and not inside:
                found = host.find(parts)
                present[change.path] = None if found is None else Present.of(found.info)
                problem = _host_problem(item, found, host, change_set.settled_ns, applied_layers)
            if problem is not None:
                problems.append(problem)
            reason = protection.reason(item)
            if reason is None and protected and _removes_folder(change):
                paths = (parts + below for below, _ in entries_below(host, parts))
                if holds_protected(paths, protected):
                    reason = "the policy protects something in it"
            if reason is not None:
                problems.append(Problem(change.path, "protected", reason))
    return Checked(tuple(problems), present)


def _removes_folder(change: Change) -> bool:
    if change.before is None or change.before.kind != "folder":
        return False
    return change.after is None or change.after.kind != "folder"


def later_edits(
    change_set: ChangeSet, *, workspace_fd: int, whole: frozenset[bytes]
) -> tuple[Problem, ...]:
    """What was edited in the workspace since the set was applied, and undoing would lose. Blocking.

    ``whole`` are the folders that came with all they hold. Other new ones the workspace had, too:
    what was in the set came into them, and they are its own.
    """
    problems = []
    known = {change.path for change in change_set.changes}
    came: int | None = None
    with LowerTree((Layer(workspace_fd),)) as host:
        for item in placed(change_set.changes):
            change, parts = item.change, item.parts
            if came is not None and item.shared < came:
                came = None
            if change.path in whole:
                came = len(parts)
            elif _is_new_folder(change) and came is None:
                continue
            try:
                found = host.find(parts)
            except PermissionError:
                # In a folder that the set itself locked; unlocking it is part of the undo.
                continue
            if change.after is None:
                if found is not None:
                    problems.append(_edited(change, "something else is there now"))
            elif found is None:
                problems.append(_edited(change, "it was removed"))
            elif change.action != "mode" and not _as_applied(change.after, found.info):
                problems.append(_edited(change, "it was edited"))
            elif stat.S_IMODE(found.info.st_mode) != change.after.mode:
                problems.append(_edited(change, "its mode was changed"))
            elif change.path in whole and _has_more(change, parts, known, host):
                problems.append(_edited(change, "something was put into it"))
    return tuple(problems)


def _comes_whole(change: Change, parts: Parts, host: LowerTree) -> bool:
    """Whether a folder comes with all it holds, so that the workspace has nothing in it."""
    is_folder = change.after is not None and change.after.kind == "folder"
    return is_folder and change.action != "mode" and not _is_on_both_sides(change, parts, host)


def _is_new_folder(change: Change) -> bool:
    return change.before is None and change.after is not None and change.after.kind == "folder"


def _edited(change: Change, what: str) -> Problem:
    return Problem(change.path, "conflict", f"{what} after the changes were applied")


def _as_applied(after: FileFacts, info: os.stat_result) -> bool:
    if info.st_ino != after.inode or kind_of(info.st_mode) != after.kind:
        return False
    return after.kind == "folder" or info.st_mtime_ns == after.mtime_ns


def _has_more(change: Change, parts: Parts, known: set[bytes], host: LowerTree) -> bool:
    if change.after is None or change.after.kind != "folder":
        return False
    with suppress(PermissionError):
        return any(change.path + b"/" + name not in known for name in host.names(parts))
    return False


def _stored_problem(
    change: Change, parts: Parts, upper: LowerTree, *, verified: bool
) -> Problem | None:
    """What the stored entry itself says against it."""
    if change.after is None:
        return None
    if change.after.kind not in _PLAIN_KINDS:
        return Problem(change.path, "refused", f"it is a {change.after.kind}")
    if change.action == "mode":
        return None
    found = upper.find(parts)
    if found is None or found.info.st_ino != change.after.inode:
        return Problem(change.path, "refused", "what was kept of it is damaged")
    mode = stat.S_IMODE(found.info.st_mode)
    if kind_of(found.info.st_mode) != change.after.kind:
        return Problem(change.path, "refused", "what was kept of it is damaged")
    if change.after.kind == "file" and not _as_it_was(change.after, found.info):
        # A part of a set shares its files with the other one, by hard links of the call's.
        return Problem(change.path, "refused", "what was kept of it was edited")
    if not verified and change.after.digest not in (None, _digest(found)):
        return Problem(change.path, "refused", "what was kept of it is damaged")
    if change.after.kind == "file" and mode & (stat.S_ISUID | stat.S_ISGID):
        return Problem(change.path, "refused", "it has a set-id bit")
    return None


def _as_it_was(after: FileFacts, info: os.stat_result) -> bool:
    return (info.st_size, info.st_mtime_ns) == (after.size, after.mtime_ns)


def _holds_more(
    change: Change,
    parts: Parts,
    upper: LowerTree,
    changed: Mapping[bytes, Change],
    left_behind: frozenset[bytes],
) -> bool:
    """Whether a folder that comes with all it holds, holds what the set does not speak of."""
    if change.after is None or change.after.kind != "folder" or change.action == "mode":
        return False
    for name in upper.names(parts):
        path = change.path + b"/" + name
        known = changed.get(path)
        if path not in left_behind and (known is None or known.after is None):
            return True
    return False


def _digest(found: Found) -> str | None:
    try:
        fd = open_to_read(found.name, dir_fd=found.dir_fd)
    except OSError:
        return None
    try:
        return digest_file(fd)
    finally:
        os.close(fd)


def _host_problem(
    item: PlacedChange,
    found: Found | None,
    host: LowerTree,
    settled_ns: int,
    applied_layers: Mapping[str, int],
) -> Problem | None:
    """How the workspace's own entry differs from the one that the call started from."""
    change, parts = item.change, item.parts
    if change.layer is not None and change.layer not in applied_layers:
        reason = f"it builds on the change set {change.layer}: apply that first"
        return Problem(change.path, "conflict", reason)
    if change.is_late:
        return Problem(change.path, "conflict", "it was changed in the workspace during the call")
    before = change.before
    if before is None:
        if _is_on_both_sides(change, parts, host):
            return None
        if found is not None:
            return Problem(change.path, "conflict", "the workspace has one now, too")
        if not host.has_folder(parts[:-1]):
            return Problem(change.path, "conflict", "its folder is not there any more")
        return None
    if found is None:
        return Problem(change.path, "conflict", "the workspace's own is not there any more")
    # Our own renames count as changes for the kernel: up to their end, the other facts decide.
    ours_ns = max(settled_ns, applied_layers.get(change.layer or "", 0))
    if not _is_as_before(item, before, found.info, host, ours_ns=ours_ns):
        return Problem(change.path, "conflict", "it was changed in the workspace since the call")
    return None


def _is_on_both_sides(change: Change, parts: Parts, host: LowerTree) -> bool:
    """Whether the call made a folder that the workspace has made, too: they are merged."""
    if not _is_new_folder(change):
        return False
    found = host.find(parts)
    return found is not None and stat.S_ISDIR(found.info.st_mode)


def _is_as_before(
    item: PlacedChange, before: FileFacts, info: os.stat_result, host: LowerTree, *, ours_ns: int
) -> bool:
    if kind_of(info.st_mode) != before.kind or stat.S_IMODE(info.st_mode) != before.mode:
        return False
    if before.kind == "folder":
        if item.change.action == "mode":
            return True
        now = folder_facts(host, item.parts, info)
        return now.digest == before.digest and now.ctime_ns <= max(before.ctime_ns, ours_ns)
    if (info.st_size, info.st_mtime_ns) != (before.size, before.mtime_ns) and before.kind == "file":
        return False
    if info.st_ino != before.inode:
        # A held layer's mode change is applied to the file that is there, not by its own copy.
        return item.change.layer is not None and info.st_ctime_ns <= ours_ns
    return info.st_ctime_ns == before.ctime_ns or info.st_ctime_ns <= ours_ns
