"""What a call changed in a workspace, as values.

Paths are bytes relative to the workspace. In JSON, bytes that are not UTF-8 become lone surrogates
(PEP 383), which JSON writes as escapes and reads back.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

__all__ = [
    "HALF_DONE",
    "Action",
    "Change",
    "ChangeSet",
    "FileFacts",
    "FileKind",
    "SetState",
    "SetStatus",
    "kind_of",
]

FileKind = Literal["file", "folder", "symlink", "fifo", "socket", "device"]
Action = Literal["added", "modified", "deleted", "type", "mode", "symlink"]
"""``type``: one kind of entry took the place of another. ``symlink``: it points elsewhere now."""

SetStatus = Literal["held", "applying", "applied", "undoing", "undone"]

HALF_DONE: Final = ("applying", "undoing")
"""Seen only while it is done, or when that was interrupted."""

_KINDS: Final[dict[int, FileKind]] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
}


def kind_of(mode: int) -> FileKind:
    """The kind of an entry by its ``st_mode``."""
    return _KINDS.get(stat.S_IFMT(mode), "device")


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One side of a change.

    ``mode`` has permission bits only. ``digest`` names its algorithm (``sha256:…``); of a folder
    that goes with all it holds, it covers all of that, and ``entries`` counts it. The inode and
    times tell later whether the entry is still the same one.
    """

    kind: FileKind
    mode: int
    size: int
    inode: int
    mtime_ns: int
    ctime_ns: int
    digest: str | None = None
    target: bytes | None = None
    entries: int = 0

    @classmethod
    def of(
        cls,
        info: os.stat_result,
        *,
        digest: str | None = None,
        target: bytes | None = None,
        entries: int = 0,
    ) -> FileFacts:
        """The facts of an entry; sizes of anything but files say nothing, and are 0."""
        return cls(
            kind=kind_of(info.st_mode),
            mode=stat.S_IMODE(info.st_mode),
            size=info.st_size if stat.S_ISREG(info.st_mode) else 0,
            inode=info.st_ino,
            mtime_ns=info.st_mtime_ns,
            ctime_ns=info.st_ctime_ns,
            digest=digest,
            target=target,
            entries=entries,
        )


@dataclass(frozen=True, slots=True)
class Change:
    """One entry that differs.

    ``renamed`` names the other path of a file that was moved: on the added one where it was, on the
    deleted one where it is now. ``dropped_mode`` has set-id bits that were taken away. ``is_late``:
    the workspace's own entry changed after the call had begun. ``layer`` is the held set that holds
    what was there before, ``None`` for the workspace itself.
    """

    path: bytes
    action: Action
    before: FileFacts | None
    after: FileFacts | None
    renamed: bytes | None = None
    dropped_mode: int = 0
    is_late: bool = False
    layer: str | None = None

    @property
    def parts(self) -> tuple[bytes, ...]:
        return tuple(self.path.split(b"/"))

    def to_json(self) -> dict[str, Any]:
        """A dictionary that ``json`` can write, and :meth:`from_json` reads."""
        return {
            "path": os.fsdecode(self.path),
            "action": self.action,
            "before": _facts_to_json(self.before),
            "after": _facts_to_json(self.after),
            "renamed": None if self.renamed is None else os.fsdecode(self.renamed),
            "dropped_mode": self.dropped_mode,
            "is_late": self.is_late,
            "layer": self.layer,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Change:
        renamed = data["renamed"]
        return cls(
            path=os.fsencode(data["path"]),
            action=data["action"],
            before=_facts_from_json(data["before"]),
            after=_facts_from_json(data["after"]),
            renamed=None if renamed is None else os.fsencode(renamed),
            dropped_mode=int(data["dropped_mode"]),
            is_late=bool(data["is_late"]),
            layer=data["layer"],
        )


def _facts_to_json(facts: FileFacts | None) -> dict[str, Any] | None:
    if facts is None:
        return None
    # By hand: dataclasses.asdict costs ten times as much, for tens of thousands of entries.
    return {
        "kind": facts.kind,
        "mode": facts.mode,
        "size": facts.size,
        "inode": facts.inode,
        "mtime_ns": facts.mtime_ns,
        "ctime_ns": facts.ctime_ns,
        "digest": facts.digest,
        "target": None if facts.target is None else os.fsdecode(facts.target),
        "entries": facts.entries,
    }


def _facts_from_json(data: dict[str, Any] | None) -> FileFacts | None:
    if data is None:
        return None
    target = data["target"]
    return FileFacts(
        kind=data["kind"],
        mode=data["mode"],
        size=data["size"],
        inode=data["inode"],
        mtime_ns=data["mtime_ns"],
        ctime_ns=data["ctime_ns"],
        digest=data["digest"],
        target=None if target is None else os.fsencode(target),
        entries=data["entries"],
    )


@dataclass(frozen=True, slots=True)
class SetState:
    """What a list of sets shows, and what decisions change: a set without its changes.

    ``layers`` are the held sets that lay below, oldest first. ``replaces`` are sets that this one
    was made of, and that are gone with its appearance; with ``waits_for`` it appears itself when
    that set is gone. The other attributes are those of :class:`ChangeSet`.
    """

    id: str
    workspace: bytes
    session: str | None
    status: SetStatus
    created_s: float
    decided_s: float | None
    settled_ns: int
    ended_by_itself: bool
    layers: tuple[str, ...]
    replaces: tuple[str, ...]
    waits_for: str | None
    summary: str

    def to_json(self) -> dict[str, Any]:
        """A dictionary that ``json`` can write, and :meth:`from_json` reads."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**values, "workspace": os.fsdecode(self.workspace)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> SetState:
        known = {item.name: data[item.name] for item in fields(cls)}
        return cls(
            **{
                **known,
                "workspace": os.fsencode(data["workspace"]),
                "layers": tuple(data["layers"]),
                "replaces": tuple(data["replaces"]),
            }
        )


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Everything that one call changed, in the order of the paths, parents first.

    Attributes:
        id: names the set, for as long as it is kept.
        workspace: the folder that it belongs to; ``workspace_inode`` tells a replaced one.
        session: the session whose later calls see it before it is decided; ``None`` for no one.
        created_s, decided_s: when it was made, and when applied or undone (Unix time).
        began_ns: file system time at which the call began.
        boot: the machine's boot in which the set was made; after another one, its content is
            compared with its digests before it is used.
        settled_ns: file system time at which the last decision was complete.
        ended_by_itself: whether the call did, rather than being stopped.
        notes: what a person should know: entries that were refused, bits that were dropped.
    """

    id: str
    workspace: bytes
    workspace_inode: int
    session: str | None
    created_s: float
    began_ns: int
    ended_by_itself: bool
    changes: tuple[Change, ...]
    status: SetStatus = "held"
    decided_s: float | None = None
    settled_ns: int = 0
    layers: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    waits_for: str | None = None
    boot: str = ""
    notes: tuple[str, ...] = ()

    @property
    def state(self) -> SetState:
        """The set without its changes."""
        return SetState(
            **{
                item.name: getattr(self, item.name)
                for item in fields(SetState)
                if item.name != "summary"
            },
            summary=self.summary(),
        )

    def count(self, action: Action) -> int:
        """How many changes are of this kind."""
        return sum(change.action == action for change in self.changes)

    def summary(self) -> str:
        """One line for a person: ``2 added, 1 modified, 1 deleted``."""
        counts = Counter(change.action for change in self.changes)
        moved = sum(change.renamed is not None for change in self.changes) // 2
        words = [
            *((f"{moved} renamed",) if moved else ()),
            *_counted(counts["added"] - moved, "added"),
            *_counted(counts["modified"] + counts["symlink"], "modified"),
            *_counted(counts["deleted"] - moved, "deleted"),
            *_counted(counts["type"], "replaced"),
            *_counted(counts["mode"], "with another mode"),
        ]
        return ", ".join(words) or "nothing changed"

    def to_json(self) -> dict[str, Any]:
        """A dictionary that ``json`` can write, and :meth:`from_json` reads."""
        return {
            **{item.name: getattr(self, item.name) for item in fields(self)},
            "workspace": os.fsdecode(self.workspace),
            "changes": [change.to_json() for change in self.changes],
            "summary": self.summary(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ChangeSet:
        known = {item.name: data[item.name] for item in fields(cls)}
        return cls(
            **{
                **known,
                "workspace": os.fsencode(data["workspace"]),
                "changes": tuple(Change.from_json(item) for item in data["changes"]),
                "layers": tuple(data["layers"]),
                "replaces": tuple(data["replaces"]),
                "notes": tuple(data["notes"]),
            }
        )


def _counted(count: int, what: str) -> tuple[str, ...]:
    return (f"{count} {what}",) if count else ()
