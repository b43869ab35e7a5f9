"""The file that is to be written: found without following a link, and known to the session."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import Final

from sandboxed_tools.errors import FieldError, InvalidInput, PathRefused
from sandboxed_tools.workspace.atomic import Expected
from sandboxed_tools.workspace.confined import OpenFile
from sandboxed_tools.workspace.root import Place, WorkspaceRoot
from sandboxed_tools.workspace.similar import most_similar
from sandboxed_tools.workspace.spelling import Parts, shown
from sandboxed_tools.workspace.state_cache import FileIdentity, FileStateCache, content_hash
from sandboxed_tools.workspace.text import Encoding, encoding_of

__all__ = [
    "MAX_EDITED_BYTES",
    "Target",
    "changed",
    "check_known",
    "check_type",
    "missing",
    "open_target",
    "parent_and_name",
    "read_target",
    "refuse",
]

MAX_EDITED_BYTES: Final = 64 * 1024**2
_MAX_LISTED_NAMES: Final = 5000


@dataclass(frozen=True, slots=True)
class Target:
    """An existing text file, open and read whole."""

    place: Place
    expected: Expected
    encoding: Encoding


def refuse(field: str, code: str, message: str) -> InvalidInput:
    """A refusal that a program knows by its code and a model understands by its message."""
    return InvalidInput(message, fields=(FieldError(field, message, code),))


def open_target(root: WorkspaceRoot, place: Place) -> OpenFile | None:
    """Open the file to be replaced; ``None`` when there is nothing of that name.

    Raises:
        PathRefused: it is a link (with the name that it stands for, when that is inside), a
            folder, no regular file, or cannot be read.
    """
    try:
        return place.tree.open_regular(place.parts, follow_links=False)
    except PathRefused as error:
        if error.reason == "missing":
            return None
        if error.reason == "link":
            raise _link_refusal(root, place, error) from error
        raise


def _link_refusal(root: WorkspaceRoot, place: Place, error: PathRefused) -> PathRefused:
    try:
        true_place, file = root.open_file(f"/workspace/{place.text}")
    except PathRefused:
        return error
    os.close(file.fd)
    return PathRefused(
        f"{shown(place.text)!r} leads through a symbolic link, which is not written through; "
        f"use its true name {shown(true_place.text)!r}.",
        reason="link",
    )


def missing(root: WorkspaceRoot, place: Place) -> PathRefused:
    """The refusal of a file that does not exist, with the names in its folder that come near."""
    near = _near_names(place)
    hint = f" Did you mean {' or '.join(repr(shown(name)) for name in near)}?" if near else ""
    return PathRefused(f"{shown(place.text)!r} does not exist.{hint}", reason="missing")


def _near_names(place: Place) -> list[str]:
    *folder, name = place.parts or (b"",)
    try:
        fd = place.tree.open_listing(tuple(folder))
    except OSError:
        return []
    try:
        with os.scandir(fd) as listing:
            names = [entry.name for entry in itertools.islice(listing, _MAX_LISTED_NAMES)]
    finally:
        os.close(fd)
    wanted = os.fsdecode(name)
    by_folded = {each.casefold(): each for each in names}
    near = most_similar(wanted.casefold(), by_folded, at_most=3)
    return [place.name_of((*folder, os.fsencode(by_folded[each]))) for each in near]


def check_type(place: Place, file: OpenFile) -> None:
    """Refuse what is too big to be edited, and notebooks.

    Raises:
        InvalidInput: ``too_large``, ``notebook``.
    """
    if file.info.st_size > MAX_EDITED_BYTES:
        raise refuse(
            "file_path",
            "too_large",
            f"{shown(place.text)!r} is {file.info.st_size} bytes long; files of up to "
            f"{MAX_EDITED_BYTES} bytes are edited. Use a command for larger ones.",
        )
    if place.text.lower().endswith(".ipynb"):
        raise refuse(
            "file_path",
            "notebook",
            f"{shown(place.text)!r} is a notebook, whose cells a text edit would break. "
            "Use a command that understands notebooks.",
        )


def read_target(place: Place, file: OpenFile) -> Target:
    """Read the file whole.

    Raises:
        InvalidInput: ``binary``, or ``too_large`` because it grows.
        PathRefused: ``unreadable``.
    """
    content = _whole(place, file)
    encoding = encoding_of(content)
    if encoding is None:
        raise refuse(
            "file_path",
            "binary",
            f"{shown(place.text)!r} is a binary file; only text is edited.",
        )
    return Target(place, Expected(file.fd, file.info, content), encoding)


def _whole(place: Place, file: OpenFile) -> bytes:
    chunks: list[bytes] = []
    size = 0
    try:
        while chunk := os.pread(file.fd, 4 * 1024**2, size):
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_EDITED_BYTES:
                raise refuse("file_path", "too_large", f"{shown(place.text)!r} grows too large.")
    except OSError as error:
        raise PathRefused(
            f"{shown(place.text)!r} cannot be read.",
            reason="unreadable",
            operator_detail=str(error),
        ) from error
    return b"".join(chunks)


def check_known(target: Target, cache: FileStateCache) -> None:
    """Refuse a file that was not read in this session, or has changed since.

    Raises:
        InvalidInput: ``not_read``, ``changed``.
    """
    place = target.place
    state = cache.get(place.parts)
    if state is None:
        raise refuse(
            "file_path",
            "not_read",
            f"{shown(place.text)!r} has not been read in this session. Read it first.",
        )
    expected = target.expected
    if state.identity != FileIdentity.of(expected.info) and (
        state.content_sha256 is None or state.content_sha256 != content_hash(expected.content)
    ):
        raise changed(place)


def changed(place: Place) -> InvalidInput:
    """The refusal of a file that somebody else has changed."""
    return refuse(
        "file_path",
        "changed",
        f"{shown(place.text)!r} has been changed since it was read. Read it again.",
    )


def parent_and_name(parts: Parts) -> tuple[Parts, bytes]:
    """The folder and the last name of a file's path.

    Raises:
        PathRefused: the path is that of the root itself.
    """
    if not parts:
        raise PathRefused("The workspace itself is a folder, not a file.", reason="folder")
    return parts[:-1], parts[-1]
