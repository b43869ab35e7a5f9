"""The journal of the file tools: every change that they make is an applied set of one entry.

So ``changes list`` shows it and ``undo`` takes it back, as with the changes of a contained call.
The old content reaches the disk with the next regular write-out, not before the change does: the
death of the process between the change and its entry loses the entry, never the file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from sandboxed_tools.errors import ChangeSetNotFound
from sandboxed_tools.workspace.change import Change, ChangeSet, FileFacts
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.journal_record import BeforeImage
from sandboxed_tools.workspace.plan import Plan
from sandboxed_tools.workspace.spelling import Parts
from sandboxed_tools.workspace.steps import Step

__all__ = ["EditJournal"]

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class EditJournal:
    """The journal of one session on one workspace. Implements ``Journal``; thread-safe as long as
    each file has one writer at a time.

    ``session`` is the name under which the entries are found again.
    """

    def __init__(self, workspace: Path, *, session: str) -> None:
        self._store = ChangeStore()
        self._workspace = workspace
        self._session = session
        self._before: dict[Parts, BeforeImage | None] = {}
        self._newest: dict[Parts, str] = {}

    def record(self, path: Parts, before: BeforeImage | None) -> None:
        """See :class:`Journal`."""
        self._before[path] = before

    def wrote(
        self, path: Parts, info: os.stat_result, *, made: Mapping[Parts, os.stat_result]
    ) -> None:
        """Enter the change. Blocking.

        Raises:
            OSError: the entry cannot be written; the file is changed all the same.
        """
        before = self._before.pop(path)
        change_set_id = self._store.new_id()
        with self._store.empty_draft(change_set_id) as draft:
            folder = _folders(draft / "upper", path[:-1])
            kept = None if before is None else _keep(folder, path[-1], before, owner=info)
            change = Change(
                path=b"/".join(path),
                action="added" if kept is None else "modified",
                before=None if kept is None else FileFacts.of(kept),
                after=FileFacts.of(info),
            )
            step = Step(
                kind="add" if kept is None else "swap",
                path=change.path,
                staged=(info.st_ino, info.st_mtime_ns),
                present=None if kept is None else (kept.st_ino, kept.st_mtime_ns),
            )
            folders = [_made(draft / "upper", parts, info) for parts, info in made.items()]
            steps = (*(each.step for each in folders), step)
            Plan(steps=steps).write(draft / "plan.json")
            changes = (*(each.change for each in folders), change)
            self._store.publish(draft, self._applied(change_set_id, changes))
        if kept is not None:
            self._expect(path, kept)
        self._newest[path] = change_set_id

    def _expect(self, path: Parts, kept: os.stat_result) -> None:
        """An entry knows its file by inode and time. Undoing the new entry puts a copy in the place
        of the file that the entry before it made: let that one know the copy."""
        with suppress(ChangeSetNotFound, KeyError):
            earlier = self._store.get(self._newest[path])
            *folders, change = earlier.changes
            change = replace(change, after=FileFacts.of(kept))
            self._store.save_changes(replace(earlier, changes=(*folders, change)))
            place = self._store.upper(earlier.id).with_name("plan.json")
            plan = Plan.read(place)
            if plan is not None:
                *others, step = plan.steps
                step = replace(step, staged=(kept.st_ino, kept.st_mtime_ns))
                replace(plan, steps=(*others, step)).write(place)

    def _applied(self, change_set_id: str, changes: tuple[Change, ...]) -> ChangeSet:
        now = time.time()
        return ChangeSet(
            id=change_set_id,
            workspace=os.fsencode(self._workspace),
            workspace_inode=os.stat(self._workspace, follow_symlinks=False).st_ino,
            session=self._session,
            created_s=now,
            began_ns=time.time_ns(),
            ended_by_itself=True,
            changes=changes,
            status="applied",
            decided_s=now,
            settled_ns=time.time_ns(),
        )


def _folders(upper: Path, names: Parts) -> bytes:
    """Make the folders through which an undo finds, or puts, the entry; the last one's path."""
    folder = os.fsencode(upper)
    for name in names:
        folder = os.path.join(folder, name)
        os.mkdir(folder, 0o700)
    return folder


class _Made(NamedTuple):
    change: Change
    step: Step


def _made(upper: Path, parts: Parts, info: os.stat_result) -> _Made:
    """A folder that was made for the entry; the one in ``upper`` stands for it after an undo."""
    path = b"/".join(parts)
    place = os.path.join(os.fsencode(upper), path)
    if os.geteuid() == 0:
        os.chown(place, info.st_uid, info.st_gid)
    os.chmod(place, info.st_mode & 0o777)
    kept = os.stat(place, follow_symlinks=False)
    step = Step(
        kind="made",
        path=path,
        staged=(kept.st_ino, kept.st_mtime_ns),
        present=(info.st_ino, info.st_mtime_ns),
    )
    return _Made(Change(path, "added", before=None, after=FileFacts.of(kept)), step)


def _keep(
    folder: bytes, name: bytes, before: BeforeImage, *, owner: os.stat_result
) -> os.stat_result:
    """Write the old content where an undo looks for it; what is known of the file it made."""
    fd = os.open(os.path.join(folder, name), _NEW_FILE, 0o600)
    try:
        view = memoryview(before.content)
        while view:
            view = view[os.write(fd, view) :]
        if os.geteuid() == 0:
            os.fchown(fd, owner.st_uid, owner.st_gid)
        os.fchmod(fd, before.mode)
        if before.mtime_ns:
            os.utime(fd, ns=(before.mtime_ns, before.mtime_ns))
        return os.fstat(fd)
    finally:
        os.close(fd)
