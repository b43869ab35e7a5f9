"""Reading what changed out of an overlay's upper folder: O(changes), whatever the workspace holds.

Reading also makes the upper folder harmless for good: its entries get the owner that they will have
in the workspace, and files lose their set-id bits. Nothing in it is opened but regular files.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from sandboxed_tools.workspace.attributes import restore_attributes
from sandboxed_tools.workspace.change import Action, Change, FileFacts, kind_of
from sandboxed_tools.workspace.change_paths import in_path_order
from sandboxed_tools.workspace.cursor import Entry, TreeCursor, walk
from sandboxed_tools.workspace.digest import digest_file, open_to_read
from sandboxed_tools.workspace.layers import Found, LowerTree, is_opaque, is_whiteout
from sandboxed_tools.workspace.spelling import Parts

__all__ = ["entries_below", "folder_facts", "read_changes", "with_renames"]

_SET_ID: Final = stat.S_ISUID | stat.S_ISGID
_DIGEST_BEFORE_BYTES: Final = 64 * 1024 * 1024
"""Larger files are only read for their old content where that can decide something."""

_MAX_PATHS_BYTES: Final = 64 * 1024 * 1024
_USUAL_PATH_BYTES: Final = 512
"""What the paths of a set may take together, or each of them on average, if that is more.

Folders below each other cost a call their number and us its square: 30,000 would fill a gigabyte.
"""


@dataclass(slots=True)
class _Reader:
    upper: TreeCursor
    lower: LowerTree
    owner: tuple[int, int]
    began_ns: int
    max_paths_bytes: int
    changes: list[Change] = field(default_factory=list)
    paths_bytes: int = 0

    def take(self, entry: Entry) -> None:
        found = self.lower.find(entry.path)
        if is_whiteout(entry.info):
            if found is None:
                self._drop(entry.name)
            else:
                self._deleted(entry.path, found)
            return
        dropped = self._own(entry, found)
        after = self._facts_after(entry, dropped)
        if found is None:
            self._add(entry.path, None, after, None, dropped)
            return
        if entry.is_folder and stat.S_ISDIR(found.info.st_mode):
            before = FileFacts.of(found.info)
            # What a folder holds is told entry by entry; only its mode is its own.
            if before.mode != after.mode:
                self._add(entry.path, before, after, found, dropped)
            self._hidden_children(entry)
            return
        before = self._facts_before(entry.path, found, after)
        if _differs(before, after):
            self._add(entry.path, before, after, found, dropped)
        else:
            # Later views must not show it in the place of what it is a copy of: their changes would
            # start from it, and it is never applied.
            self._drop(entry.name)

    def _drop(self, name: bytes) -> None:
        """Remove what changes nothing; a whiteout would reach the workspace with a new folder."""
        folder = os.fstat(self.upper.fd)
        os.unlink(name, dir_fd=self.upper.fd)
        os.utime(self.upper.fd, ns=(folder.st_atime_ns, folder.st_mtime_ns))

    def _own(self, entry: Entry, found: Found | None) -> int:
        """Give the entry to the workspace's owner; returns the set-id bits that it loses.

        A folder that would lock us out is opened up for good. The mode that the call gave it is in
        the facts, and is set when everything else of the set is in its place.
        """
        mode_and_kind = entry.info.st_mode
        mode = stat.S_IMODE(mode_and_kind)
        kept = stat.S_IMODE(found.info.st_mode) & _SET_ID if found and entry.is_folder else 0
        dropped = mode & _SET_ID & ~kept
        if (entry.info.st_uid, entry.info.st_gid) != self.owner:
            os.chown(entry.name, *self.owner, dir_fd=self.upper.fd, follow_symlinks=False)
        if stat.S_ISREG(mode_and_kind) or entry.is_folder:
            same_kind = found is not None and kind_of(found.info.st_mode) == kind_of(mode_and_kind)
            original = found if same_kind else None
            restore_attributes(self.upper.fd, entry.name, original, keeps_marks=entry.is_folder)
        if mode & _SET_ID and not stat.S_ISLNK(entry.info.st_mode):
            # Not a link, and nobody else is in this folder any more: by name is safe.
            os.chmod(entry.name, mode & ~dropped, dir_fd=self.upper.fd)
        if entry.is_folder and mode & 0o700 != 0o700 and os.geteuid() != 0:
            os.chmod(entry.name, (mode & ~dropped) | 0o700, dir_fd=self.upper.fd)
        return dropped

    def _facts_after(self, entry: Entry, dropped: int) -> FileFacts:
        facts = _facts(self.upper.fd, entry.name, entry.info, digest=True)
        return replace(facts, mode=facts.mode & ~dropped)

    def _facts_before(self, path: Parts, found: Found, after: FileFacts) -> FileFacts:
        if stat.S_ISDIR(found.info.st_mode):
            return folder_facts(self.lower, path, found.info)
        wanted = found.info.st_size == after.size or found.info.st_size <= _DIGEST_BEFORE_BYTES
        return _facts(found.dir_fd, found.name, found.info, digest=wanted)

    def _deleted(self, path: Parts, found: Found) -> None:
        held, stamp = found.held, found.info.st_ctime_ns
        if stat.S_ISDIR(found.info.st_mode):
            facts = folder_facts(self.lower, path, found.info)
        else:
            facts = _facts(found.dir_fd, found.name, found.info, digest=False)
        late = max(stamp, facts.ctime_ns) > self.began_ns
        self._keep(Change(b"/".join(path), "deleted", facts, None, is_late=late, layer=held))

    def _hidden_children(self, entry: Entry) -> None:
        """An opaque folder hides what was there before without a whiteout for each."""
        if not is_opaque(self.upper.fd, entry.name):
            return
        self.upper.enter(entry.name)
        try:
            present = set(self.upper.names())
        finally:
            self.upper.leave()
        for name in self.lower.names(entry.path):
            path = (*entry.path, name)
            if name not in present and (found := self.lower.find(path)) is not None:
                self._deleted(path, found)

    def _add(
        self,
        path: Parts,
        before: FileFacts | None,
        after: FileFacts,
        found: Found | None,
        dropped: int,
    ) -> None:
        stamps = [found.info.st_ctime_ns] if found is not None else []
        stamps += [before.ctime_ns] if before is not None else []
        self._keep(
            Change(
                path=b"/".join(path),
                action=_action(before, after),
                before=before,
                after=after,
                dropped_mode=dropped,
                is_late=any(stamp > self.began_ns for stamp in stamps),
                layer=found.held if found is not None else None,
            )
        )

    def _keep(self, change: Change) -> None:
        self.changes.append(change)
        self.paths_bytes += len(change.path)
        if self.paths_bytes > max(self.max_paths_bytes, _USUAL_PATH_BYTES * len(self.changes)):
            raise OSError(errno.ENAMETOOLONG, "their paths are too long to be kept")


def read_changes(
    upper_fd: int,
    lower: LowerTree,
    *,
    owner: tuple[int, int],
    began_ns: int,
    max_paths_bytes: int = _MAX_PATHS_BYTES,
) -> tuple[Change, ...]:
    """What an upper folder changes in ``lower``, in the order of the paths, parents first.

    ``owner`` is whom everything will belong to; ``began_ns`` the file system's time when the call
    began. A file whose content and mode are as before is no change, whatever its times; nor are
    extended attributes. The upper folder must not be in use any more. Blocking.

    Raises:
        OSError: the folder cannot be read; ENAMETOOLONG where all paths together are too long.
        TreeMoved: somebody rearranges it.
    """
    with TreeCursor(upper_fd, force=True) as cursor:
        reader = _Reader(cursor, lower, owner, began_ns, max_paths_bytes)
        for entry in walk(cursor):
            if not entry.left:
                reader.take(entry)
    changes = sorted(reader.changes, key=lambda change: in_path_order(change.path))
    return with_renames(tuple(changes), lower)


def with_renames(changes: tuple[Change, ...], lower: LowerTree) -> tuple[Change, ...]:
    """Mark pairs of a deleted and an added file with the same content as one that was moved.

    Old content is only read where an added file of the same size may have come from it.
    """
    added: dict[tuple[int, str], deque[Change]] = defaultdict(deque)
    for change in changes:
        after = change.after
        if change.action == "added" and after and after.size and after.digest is not None:
            added[after.size, after.digest].append(change)
    sizes = {size for size, _ in added}
    other: dict[bytes, bytes] = {}
    digests: dict[bytes, str] = {}
    for change in changes:
        before = change.before
        if change.action != "deleted" or not before or before.kind != "file":
            continue
        found = lower.find(change.parts) if before.size in sizes else None
        if found is None:
            continue
        digest = _facts(found.dir_fd, found.name, found.info, digest=True).digest
        twins = added.get((before.size, digest)) if digest is not None else None
        if digest is not None and twins:
            twin = twins.popleft()
            digests[change.path] = digest
            other |= {change.path: twin.path, twin.path: change.path}
    return tuple(_renamed(change, other, digests) for change in changes)


def _renamed(change: Change, other: dict[bytes, bytes], digests: dict[bytes, str]) -> Change:
    if change.path not in other:
        return change
    before = change.before
    if before is not None:
        before = replace(before, digest=digests[change.path])
    return replace(change, renamed=other[change.path], before=before)


def folder_facts(lower: LowerTree, path: Parts, info: os.stat_result) -> FileFacts:
    """A folder with all it holds: how many entries, a mark of the whole, and the latest change.

    Of the folders in it only names and modes count: their times and inodes change with every file
    that comes or goes, which the mark shows anyway.
    """
    hasher = hashlib.sha256()
    entries, latest = 0, 0
    for below, found in entries_below(lower, path):
        entries += 1
        identity = b""
        if not stat.S_ISDIR(found.st_mode):
            latest = max(latest, found.st_ctime_ns)
            identity = b"%d %d %d" % (found.st_ino, found.st_size, found.st_mtime_ns)
        hasher.update(b"%o %b %b\0" % (found.st_mode, identity, b"/".join(below)))
    facts = FileFacts.of(info, digest=f"tree:{hasher.hexdigest()}", entries=entries)
    return replace(facts, ctime_ns=latest)


def entries_below(lower: LowerTree, path: Parts) -> Iterator[tuple[Parts, os.stat_result]]:
    """Everything in a folder of the layers, by its names from there, parents first."""
    pending = [path]
    while pending:
        folder = pending.pop()
        inside: list[Parts] = []
        for name in lower.names(folder):
            child = (*folder, name)
            found = lower.find(child)
            if found is None:
                continue
            yield child[len(path) :], found.info
            if stat.S_ISDIR(found.info.st_mode):
                inside.append(child)
        pending += reversed(inside)


def _facts(dir_fd: int, name: bytes, info: os.stat_result, *, digest: bool) -> FileFacts:
    if stat.S_ISLNK(info.st_mode):
        return FileFacts.of(info, target=os.readlink(name, dir_fd=dir_fd))
    if not stat.S_ISREG(info.st_mode) or not digest:
        return FileFacts.of(info)
    try:
        fd = open_to_read(name, dir_fd=dir_fd)
    except OSError:
        # Not readable for us, or held by a lease: the inode and times must do.
        return FileFacts.of(info)
    try:
        return FileFacts.of(info, digest=digest_file(fd))
    finally:
        os.close(fd)


def _differs(before: FileFacts, after: FileFacts) -> bool:
    if before.kind != after.kind or before.target != after.target or before.size != after.size:
        return True
    if before.kind == "symlink":
        return False
    if before.mode != after.mode:
        return True
    return before.kind == "file" and (before.digest is None or before.digest != after.digest)


def _action(before: FileFacts | None, after: FileFacts) -> Action:
    if before is None:
        return "added"
    if before.kind != after.kind:
        return "type"
    if before.kind == "symlink":
        return "symlink"
    if before.kind == "folder" or (before.digest is not None and before.digest == after.digest):
        return "mode"
    return "modified"
