"""The folder in which this installation remembers things: private, with checked parents.

Views, held changes and journals live below it. Files made inside a sandbox appear in it while a
call runs, set-id files among them, so nobody but its owner may ever reach into it.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from pathlib import Path

from sandboxed_tools.errors import ConfigurationError

__all__ = ["STATE_DIR_VARIABLE", "installation_id", "state_dir"]

STATE_DIR_VARIABLE = "SANDBOXED_TOOLS_STATE_DIR"
_ID_FILE = "installation-id"
_ID = re.compile(r"[0-9a-f]{32}")
_ADVICE = f"Set {STATE_DIR_VARIABLE} to a folder that only you can write to."


def state_dir() -> Path:
    """The state folder, created with mode 0700 when it is missing.

    ``SANDBOXED_TOOLS_STATE_DIR``, else ``$XDG_STATE_HOME/sandboxed-tools``, else
    ``~/.local/state/sandboxed-tools``; a relative ``XDG_STATE_HOME`` is ignored, as the XDG base
    directory specification demands. The answer holds no symlinks.

    Raises:
        ConfigurationError: the folder is a symlink, belongs to someone else, is open to others,
            cannot be made, or somebody else could replace one of its parents.
    """
    chosen = _chosen()
    try:
        chosen.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        parent = chosen.parent.resolve(strict=True)
        for place in (parent, *parent.parents):
            _check_parent(place)
        folder = parent / chosen.name
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        _check_own(folder)
    except (OSError, RuntimeError) as error:
        raise ConfigurationError(
            f"The state folder cannot be used: {type(error).__name__}. {_ADVICE}",
            operator_detail=f"{chosen}: {error}",
        ) from error
    return folder


def installation_id() -> str:
    """32 hexadecimal digits that name this installation: random, made once, kept for ever.

    Processes that ask for it for the first time at the same moment all get the same answer.

    Raises:
        ConfigurationError: the state folder cannot be used, or the file holds something else.
    """
    path = state_dir() / _ID_FILE
    try:
        return _read_id(path)
    except FileNotFoundError:
        _publish(path, secrets.token_hex(16))
        return _read_id(path)


def _chosen() -> Path:
    stated = os.environ.get(STATE_DIR_VARIABLE)
    if stated is not None:
        path = Path(stated)
        if not path.is_absolute() or ".." in path.parts or path == Path("/") or "\0" in stated:
            raise ConfigurationError(
                f"{STATE_DIR_VARIABLE} must be an absolute path without '..'.",
                operator_detail=f"it is {stated!r}",
            )
        return path
    base = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(base):
        return Path(base, "sandboxed-tools")
    try:
        return Path.home() / ".local" / "state" / "sandboxed-tools"
    except RuntimeError as error:
        raise ConfigurationError(f"There is no home folder. {_ADVICE}") from error


def _check_parent(place: Path) -> None:
    """Refuse a folder in which somebody else could put another state folder in place of ours."""
    info = place.lstat()
    strangers = info.st_uid not in (0, os.geteuid())
    shared = bool(info.st_mode & stat.S_IWOTH)
    if info.st_mode & stat.S_IWGRP and info.st_gid not in (0, os.getegid()):
        shared = True
    if strangers or (shared and not info.st_mode & stat.S_ISVTX):
        what = "belongs to another user" if strangers else "can be written to by others"
        raise ConfigurationError(
            f"A parent of the state folder {what}. {_ADVICE}",
            operator_detail=f"{place}: owner {info.st_uid}, mode {stat.S_IMODE(info.st_mode):o}",
        )


def _check_own(folder: Path) -> None:
    info = folder.lstat()
    if not stat.S_ISDIR(info.st_mode):
        what = "is a symlink or no folder"
    elif info.st_uid != os.geteuid():
        what = "belongs to another user"
    elif info.st_mode & 0o077:
        what = "is open to others (its mode must be 0700)"
    else:
        return
    raise ConfigurationError(
        f"The state folder {what}. {_ADVICE}",
        operator_detail=f"{folder}: owner {info.st_uid}, mode {stat.S_IMODE(info.st_mode):o}",
    )


def _read_id(path: Path) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            text = file.read(64).decode("ascii", "replace").strip()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigurationError(
            "The installation's id cannot be read. Remove the file to get a new one.",
            operator_detail=f"{path}: {error}",
        ) from error
    if _ID.fullmatch(text) is None:
        raise ConfigurationError(
            "The installation's id is damaged. Remove the file to get a new one.",
            operator_detail=str(path),
        )
    return text


def _publish(path: Path, text: str) -> None:
    """Make the file appear whole or not at all; the first of several writers wins."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(text.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)
