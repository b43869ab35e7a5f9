"""Reading policy files: the operator's with a check of who could have written them, the project's
through the confined reader, because it is a file like any other in a hostile tree."""

from __future__ import annotations

import errno
import os
import stat
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sandboxed_tools.errors import ConfigurationError, PathRefused
from sandboxed_tools.tool import for_terminal
from sandboxed_tools.workspace import WorkspaceRoot

__all__ = [
    "MAX_POLICY_BYTES",
    "ORGANISATION_FILE",
    "PROJECT_FILE",
    "PolicyFile",
    "Signature",
    "read_operator_file",
    "read_project_file",
    "signature_at",
    "user_file",
]

ORGANISATION_FILE: Final = Path("/etc/sandboxed-tools/policy.toml")
PROJECT_FILE: Final = "sandboxed-tools.toml"
MAX_POLICY_BYTES: Final = 64 * 1024
_RACY_S: Final = 2.0

Signature = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A policy file that was read: its values, and what tells whether it is still the same.

    ``is_settled``: it was old enough when it was read for a later change to show in its times.
    """

    source: str
    values: Mapping[str, Any]
    content: bytes
    device: int
    inode: int
    signature: Signature
    is_settled: bool


def user_file() -> Path | None:
    """The user's own policy: in ``$XDG_CONFIG_HOME``, else in ``~/.config``."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):
        try:
            base = str(Path.home() / ".config")
        except RuntimeError:
            return None
    return Path(base, "sandboxed-tools", "policy.toml")


def signature_at(path: str | Path, *, dir_fd: int | None = None) -> Signature | None:
    """What a stat says now; ``None`` where nothing is there."""
    try:
        return _signature(os.stat(path, dir_fd=dir_fd, follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        # Whoever hides the file must not switch it off: the read that follows says what is wrong.
        return (-1, error.errno or 0)


def _signature(info: os.stat_result) -> Signature:
    return (
        info.st_dev,
        info.st_ino,
        info.st_mode,
        info.st_uid,
        info.st_size,
        info.st_mtime_ns,
        info.st_ctime_ns,
    )


def read_operator_file(path: Path, *, owners: frozenset[int]) -> PolicyFile | None:
    """Read a policy file of the organisation or the user; ``None`` when there is none.

    ``owners`` are the UIDs that may own it and the folders above it.

    Raises:
        ConfigurationError: it is a symlink or no regular file, somebody else could write it or put
            another in its place, it cannot be read, is longer than 64 KiB, or is not TOML.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except FileNotFoundError:
        return None
    except OSError as error:
        what = "is a symlink" if error.errno == errno.ELOOP else "cannot be read"
        raise _refused(str(path), what, str(error)) from error
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise _refused(str(path), "is no regular file")
        _check_owner(str(path), info, owners)
        # The folders by name, and those that links among them lead to.
        folder = path.parent.resolve(strict=True)
        for place in dict.fromkeys((*path.absolute().parents, folder, *folder.parents)):
            _check_folder(place, owners)
        return _read(fd, str(path), info)
    except OSError as error:
        raise _refused(str(path), "cannot be read", str(error)) from error
    finally:
        os.close(fd)


def read_project_file(root: WorkspaceRoot) -> PolicyFile | None:
    """Read the project's file below an open workspace; ``None`` when there is none.

    Raises:
        ConfigurationError: it is a symlink or no regular file, cannot be read, is longer than
            64 KiB, or is not TOML.
    """
    try:
        _, file = root.open_file(PROJECT_FILE, follow_links=False)
    except PathRefused as error:
        if error.reason == "missing":
            return None
        raise _refused(PROJECT_FILE, "cannot be read", str(error)) from error
    with file:
        try:
            return _read(file.fd, PROJECT_FILE, file.info)
        except OSError as error:
            raise _refused(PROJECT_FILE, "cannot be read", str(error)) from error


def _read(fd: int, source: str, info: os.stat_result) -> PolicyFile:
    content = b""
    while len(content) <= MAX_POLICY_BYTES:
        chunk = os.read(fd, MAX_POLICY_BYTES + 1 - len(content))
        if not chunk:
            break
        content += chunk
    if len(content) > MAX_POLICY_BYTES:
        raise _refused(source, f"is longer than {MAX_POLICY_BYTES} bytes")
    if _signature(os.fstat(fd)) != _signature(info):
        raise _refused(source, "changed while it was read")
    try:
        values = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _refused(source, "is not TOML", str(error)) from None
    age_s = time.time() - info.st_ctime
    return PolicyFile(
        source=source,
        values=values,
        content=content,
        device=info.st_dev,
        inode=info.st_ino,
        signature=_signature(info),
        is_settled=age_s > _RACY_S,
    )


def _check_owner(source: str, info: os.stat_result, owners: frozenset[int]) -> None:
    if info.st_uid not in owners:
        raise _refused(source, f"belongs to another user (UID {info.st_uid})")
    if info.st_mode & stat.S_IWOTH or (info.st_mode & stat.S_IWGRP and not _own_group(info)):
        raise _refused(source, f"can be written to by others (mode {stat.S_IMODE(info.st_mode):o})")


def _check_folder(folder: Path, owners: frozenset[int]) -> None:
    info = folder.lstat()
    if info.st_uid not in owners | {0}:
        raise _refused(str(folder), f"belongs to another user (UID {info.st_uid})")
    if stat.S_ISLNK(info.st_mode):
        return
    open_to_others = info.st_mode & stat.S_IWOTH or (
        info.st_mode & stat.S_IWGRP and not _own_group(info)
    )
    if open_to_others and not info.st_mode & stat.S_ISVTX:
        raise _refused(str(folder), "can be written to by others")


def _own_group(info: os.stat_result) -> bool:
    return info.st_gid in (0, os.getegid())


def _refused(source: str, what: str, detail: str | None = None) -> ConfigurationError:
    shown = for_terminal(source, one_line=True)
    return ConfigurationError(
        f"The policy file {shown} {what}. Nothing is called until that is mended.",
        operator_detail=detail,
    )
