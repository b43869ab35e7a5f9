"""The abuse corpus for change sets: its rows, and what must be true of the host whatever they do.

A row says what a command's set must show, whether it may be applied, and what is there afterwards.
Everything else holds for every row alike, and is judged by :func:`strange_entries` and by pictures
of the workspace and of what lies beside it.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandboxed_tools.workspace.cursor import TreeCursor, walk

__all__ = [
    "OUTCOMES",
    "ROWS",
    "VIEWS",
    "Picture",
    "Row",
    "descriptions",
    "picture",
    "shown_faults",
    "strange_entries",
]

DATA = Path(__file__).parent.parent / "data" / "abuse_changes.jsonl"
VIEWS = ("overlay", "copy")
OUTCOMES = ("applied", "asks", "refused", "conflict", "nothing")
LARGE_BYTES = 1024 * 1024

Changes = dict[str, str]


@dataclass(frozen=True, slots=True)
class Facts:
    """What there is to an entry; of large files the beginning."""

    mode: int
    owner: tuple[int, int]
    mtime_ns: int
    links: int
    size: int
    content: bytes
    attributes: tuple[tuple[str, bytes], ...]
    is_sparse: bool


Picture = dict[str, Facts]


@dataclass(frozen=True, slots=True)
class Row:
    """One hostile case: commands of one session, and what must become of them.

    ``changes`` are what each command's set shows, exactly; ``changes_of`` the same where the views
    differ. ``changes_has`` is a part of the last one, ``changes_count`` its size, or all sizes.
    ``meanwhile`` is what the host does between the call and the decision, and ``forced`` what
    ``force`` then comes to. ``excluding`` leaves out what is refused. ``after`` describes paths
    once everything is applied, see :func:`descriptions`.
    """

    id: str
    category: str
    commands: tuple[str, ...]
    outcome: str
    note: str = ""
    changes: tuple[Changes, ...] | None = None
    changes_of: Mapping[str, tuple[Changes, ...]] = field(default_factory=dict)
    changes_has: Changes = field(default_factory=dict)
    changes_count: tuple[int, ...] = ()
    after: Mapping[str, str] = field(default_factory=dict)
    notes_has: str = ""
    excluding: tuple[str, ...] = ()
    meanwhile: str = ""
    forced: str = ""
    limits: Mapping[str, str] = field(default_factory=dict)


def _load() -> Iterator[Row]:
    for line in DATA.read_text(encoding="utf-8").splitlines():
        raw = json.loads(line)
        expect: dict[str, Any] = raw.pop("expect")
        count = expect.pop("changes_count", ())
        expect["changes_count"] = (count,) if isinstance(count, int) else tuple(count)
        for name in ("changes", "excluding"):
            if name in expect:
                expect[name] = tuple(expect[name])
        commands = tuple(raw.pop("commands"))
        yield Row(**raw, **expect, commands=commands)


def shown_faults(row: Row, view: str, shown: list[Changes], notes: str) -> Iterator[str]:
    """Everything in which the held sets show something else than they must."""
    expected = row.changes_of.get(view, row.changes)
    if expected is not None and list(expected) != shown:
        yield f"shown is {shown}, expected {list(expected)}"
    if row.changes_count and row.changes_count != tuple(len(item) for item in shown):
        yield f"{[len(item) for item in shown]} entries, expected {row.changes_count}"
    for path, action in row.changes_has.items():
        if shown[-1].get(path) != action:
            yield f"{path!r} is {shown[-1].get(path)}, expected {action}: {shown[-1]}"
    if row.notes_has not in notes:
        yield f"no note speaks of {row.notes_has!r}: {notes!r}"


def picture(root: Path) -> Picture:
    """Everything about a tree that must be as before, by path; access times aside."""
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = {".": _facts(fd, b".")}
        # A path may be longer than the kernel takes, so everything is asked in its own folder.
        with TreeCursor(fd) as cursor:
            for entry in walk(cursor):
                if not entry.left:
                    found[os.fsdecode(b"/".join(entry.path))] = _facts(cursor.fd, entry.name)
    finally:
        os.close(fd)
    return found


def _facts(folder: int, name: bytes) -> Facts:
    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    place = b"/proc/self/fd/%d/%b" % (folder, name)
    content = b""
    if stat.S_ISLNK(info.st_mode):
        content = os.readlink(name, dir_fd=folder)
    elif stat.S_ISREG(info.st_mode):
        with open(place, "rb") as file:
            content = file.read(LARGE_BYTES)
    keys = () if stat.S_ISLNK(info.st_mode) else sorted(os.listxattr(place))
    return Facts(
        mode=info.st_mode,
        owner=(info.st_uid, info.st_gid),
        mtime_ns=info.st_mtime_ns,
        links=info.st_nlink if stat.S_ISREG(info.st_mode) else 0,
        size=info.st_size if stat.S_ISREG(info.st_mode) else 0,
        content=content,
        attributes=tuple((key, os.getxattr(place, key)) for key in keys),
        is_sparse=info.st_blocks * 512 < LARGE_BYTES < info.st_size,
    )


def strange_entries(before: Picture, now: Picture, *, owner: int) -> Iterator[str]:
    """What no applied set may leave: other owners, set-id bits, special files, attributes.

    What is the same as before is not looked at.
    """
    for name, facts in now.items():
        old = before.get(name)
        if old == facts:
            continue
        if facts.owner[0] != owner:
            yield f"{name!r} belongs to {facts.owner}"
        if stat.S_IFMT(facts.mode) not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
            yield f"{name!r} is special: {facts.mode:o}"
        if _set_id(facts.mode) & ~(_set_id(old.mode) if old and stat.S_ISDIR(old.mode) else 0):
            yield f"{name!r} has set-id bits: {facts.mode:o}"
        if facts.attributes != (old.attributes if old else ()):
            yield f"{name!r} has attributes: {facts.attributes}"


def _set_id(mode: int) -> int:
    return 0 if stat.S_ISLNK(mode) else mode & (stat.S_ISUID | stat.S_ISGID)


def descriptions(facts: Facts | None) -> tuple[str, ...]:
    """The ways in which a row may describe a path, from the shortest to the longest."""
    if facts is None:
        return ("absent",)
    mode = f"{stat.S_IMODE(facts.mode):04o}"
    if stat.S_ISLNK(facts.mode):
        return ("link", f"link {os.fsdecode(facts.content)}")
    if stat.S_ISDIR(facts.mode):
        return ("folder", f"folder {mode}")
    if not stat.S_ISREG(facts.mode):
        return ("special",)
    text = "sparse" if facts.is_sparse else json.dumps(facts.content.decode("utf-8", "replace"))
    return ("file", f"file {mode}", f"file {mode} {text}")


ROWS: tuple[Row, ...] = tuple(_load())
