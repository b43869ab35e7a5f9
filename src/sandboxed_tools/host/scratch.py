"""The private folders of one host run: TMPDIR, and a HOME with nothing in it."""

from __future__ import annotations

import functools
import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sandboxed_tools.host.remove_tree import remove_tree
from sandboxed_tools.tool.process import ProcessName

__all__ = ["Scratch", "make_scratch", "private_scratch", "remove_scratch", "remove_stale_scratch"]

_log = logging.getLogger(__name__)

_PREFIX = "sandboxed-tools-host."


@dataclass(frozen=True, slots=True)
class Scratch:
    """``root`` holds ``tmp`` (writable for the command) and ``home`` (empty, read-only)."""

    root: Path

    @property
    def tmp(self) -> Path:
        return self.root / "tmp"

    @property
    def home(self) -> Path:
        return self.root / "home"


def make_scratch(*, uid: int | None, gid: int | None) -> Scratch:
    """Make the folders, owned by the user that the command runs as; ``None`` for this one.

    The name says who made it, so that another process can tell when it is stale.

    Raises:
        OSError: the system's temporary folder cannot be written.
    """
    root = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{_owner(os.getpid())}."))
    scratch = Scratch(root)
    try:
        for folder in (scratch.tmp, scratch.home):
            folder.mkdir(mode=0o700)
            if uid is not None and gid is not None:
                os.chown(folder, uid, gid)
        if uid is not None:
            # The command's user passes through, and can neither list nor change it.
            root.chmod(0o711)
    except OSError:
        remove_scratch(scratch)
        raise
    return scratch


@functools.lru_cache(maxsize=1)
def _owner(_pid: int) -> str:
    return str(ProcessName.current())


def remove_scratch(scratch: Scratch) -> None:
    """Remove the folders whatever was left in them; a failure is logged with the path."""
    try:
        remove_tree(os.fsencode(scratch.root))
    except OSError as error:
        _log.warning("could not remove the scratch folder %s: %s", scratch.root, error)


@contextmanager
def private_scratch(*, uid: int | None, gid: int | None) -> Iterator[Scratch]:
    """:func:`make_scratch`, removed at the end."""
    scratch = make_scratch(uid=uid, gid=gid)
    try:
        yield scratch
    finally:
        remove_scratch(scratch)


def remove_stale_scratch() -> int:
    """Remove what owners that are provably dead left behind; returns how many folders.

    Only real folders of this user with our name count: the temporary folder belongs to everybody.
    """
    removed = 0
    base = tempfile.gettempdir()
    for name in os.listdir(base):
        if not name.startswith(_PREFIX):
            continue
        owner = ProcessName.parse(name.removeprefix(_PREFIX).split(".", 1)[0])
        path = Path(base, name)
        if owner is None or owner.life() != "dead" or not _is_own_folder(path):
            continue
        remove_scratch(Scratch(path))
        removed += 1
    return removed


def _is_own_folder(path: Path) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
