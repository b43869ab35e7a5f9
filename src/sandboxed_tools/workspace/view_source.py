"""A workspace that was opened to be shown to a container: whose it is, and where it will stand."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandboxed_tools.errors import InvalidWorkspace, UnsupportedOnEngine
from sandboxed_tools.tool.mounts import ContainerUser
from sandboxed_tools.workspace.root import check_workspace

__all__ = ["INSIDE", "Source", "check_users", "differences", "open_source", "targets"]

INSIDE: Final = "/workspace"
"""Where every workspace stands, beside its own path."""


@dataclass(frozen=True, slots=True)
class Source:
    """A workspace that has been opened: its real path, a descriptor, and its owner."""

    path: Path
    fd: int
    info: os.stat_result


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """Check the workspace and open it once; what follows rests on the descriptor where it can.

    Raises:
        InvalidWorkspace: the folder may not be a workspace; the message says why.
    """
    real = check_workspace(path)
    try:
        fd = os.open(real, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise InvalidWorkspace(
            "The workspace is not a folder that can be opened.",
            operator_detail=f"{real}: {error}",
        ) from error
    try:
        yield Source(path=real, fd=fd, info=os.fstat(fd))
    finally:
        os.close(fd)


def check_users(source: Source, user: ContainerUser) -> None:
    """Refuse a workspace or a container's user that is not the client's own, unless it is root."""
    if user.uid <= 0 or user.gid < 0:
        raise UnsupportedOnEngine("A container never runs as user 0.")
    if os.geteuid() == 0:
        return
    if source.info.st_uid != os.geteuid():
        raise InvalidWorkspace("The workspace belongs to another user.")
    if user.uid != os.geteuid():
        raise UnsupportedOnEngine("Without root, a container runs as the user that started it.")


def targets(source: Source) -> tuple[str, ...]:
    """Where the workspace stands inside: at its own path, where the engine can name that."""
    return (str(source.path), INSIDE) if _is_utf8(source.path) else (INSIDE,)


def differences(source: Source) -> tuple[str, ...]:
    notes = []
    if not _is_utf8(source.path):
        notes.append(f"the workspace's path is not UTF-8; inside, it is only at {INSIDE}")
    if _has_mounts_below(source.path):
        notes.append("what is mounted inside the workspace cannot be seen by the call")
    return tuple(notes)


def _is_utf8(path: Path) -> bool:
    try:
        os.fsencode(path).decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _has_mounts_below(path: Path) -> bool:
    """Whether something is mounted inside the folder (proc(5), mountinfo, field 5)."""
    prefix = os.fsencode(path) + b"/"
    with open("/proc/self/mountinfo", "rb") as table:
        points = (line.split(b" ", 5)[4] for line in table)
        return any(_unescaped(point).startswith(prefix) for point in points)


def _unescaped(text: bytes) -> bytes:
    return re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), text)
