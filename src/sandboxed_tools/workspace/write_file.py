"""Putting a new content in the place of a file, or making the file."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from sandboxed_tools.errors import InvalidInput, PathRefused
from sandboxed_tools.workspace.atomic import FileChangedError, create_file, replace_file
from sandboxed_tools.workspace.confined import refusal
from sandboxed_tools.workspace.diff import diff_of, replacement_between
from sandboxed_tools.workspace.edit_text import Content, content_of, file_bytes
from sandboxed_tools.workspace.journal_record import BeforeImage, Journal
from sandboxed_tools.workspace.root import Place, WorkspaceRoot
from sandboxed_tools.workspace.spelling import Parts, shown
from sandboxed_tools.workspace.state_cache import (
    FileIdentity,
    FileState,
    FileStateCache,
    content_hash,
)
from sandboxed_tools.workspace.target import (
    MAX_EDITED_BYTES,
    Target,
    changed,
    check_known,
    check_type,
    open_target,
    parent_and_name,
    read_target,
    refuse,
)
from sandboxed_tools.workspace.text import Encoding, newline_of

__all__ = ["Written", "create", "store", "unencodable", "write_file"]


@dataclass(frozen=True, slots=True)
class Written:
    """A file that was written.

    Attributes:
        path: relative to the workspace.
        diff: what changed, unified and bounded; all of it new when the file was created.
        replacements: how many places an edit replaced; 0 for a whole write.
    """

    path: str
    is_new: bool
    size_bytes: int
    encoding: Encoding
    diff: str
    replacements: int = 0


def write_file(
    root: WorkspaceRoot,
    path: str | os.PathLike[str],
    content: str,
    *,
    cache: FileStateCache,
    cwd: Parts = (),
    journal: Journal | None = None,
) -> Written:
    """Write a whole file; missing folders on the way are made.

    A file that exists must have been read in this session and be unchanged since. Its encoding, and
    CR LF line ends unless the content has its own, are kept; a new file is UTF-8.

    Raises:
        PathRefused: outside, denied, a link, no regular file, disk full, read-only.
        InvalidInput: ``encoding``, ``too_large``, ``binary``, ``notebook``, ``not_read``,
            ``changed``.
    """
    place = root.locate(path, cwd=cwd, for_writing=True)
    parent_and_name(place.parts)
    file = open_target(root, place)
    if file is None:
        return create(root, place, content, field="content", cache=cache, journal=journal)
    with file:
        check_type(place, file)
        target = read_target(place, file)
        check_known(target, cache)
        old = content_of(target.expected.content, target.encoding)
        new = Content(
            _encoded(_with_line_ends(content, old), old.codec, field="content"), target.encoding
        )
        diff = diff_of(
            old.data,
            replacement_between(old.data, new.data),
            codec=old.codec,
            from_name=shown(place.text),
            to_name=shown(place.text),
        )
        return store(target, new, diff=diff, cache=cache, journal=journal)


def _with_line_ends(content: str, old: Content) -> str:
    if "\r\n" not in content and newline_of(old.data, "latin-1") == "crlf":
        return content.replace("\n", "\r\n")
    return content


def create(
    root: WorkspaceRoot,
    place: Place,
    content: str,
    *,
    field: str,
    cache: FileStateCache,
    journal: Journal | None,
) -> Written:
    """Make a new file in UTF-8.

    Raises:
        PathRefused: a folder on the way is a link or a file, disk full, read-only.
        InvalidInput: ``encoding``, ``too_large``; ``changed`` when it was made meanwhile.
    """
    data = _encoded(content, "utf-8", field=field)
    if journal is not None:
        journal.record(place.parts, None)
    made: dict[Parts, os.stat_result] = {}
    try:
        info = _new_file(root, place, data, made)
    except (InvalidInput, PathRefused):
        _remove_made(place, made)
        raise
    if journal is not None:
        journal.wrote(place.parts, info, made=made)
    diff = diff_of(
        b"",
        replacement_between(b"", data),
        codec="utf-8",
        from_name="/dev/null",
        to_name=shown(place.text),
    )
    _remember(cache, place, info, data, "utf-8")
    return Written(place.text, True, len(data), "utf-8", diff)


def _new_file(
    root: WorkspaceRoot, place: Place, data: bytes, made: dict[Parts, os.stat_result]
) -> os.stat_result:
    folder, name = parent_and_name(place.parts)
    try:
        dir_fd = place.tree.make_folders(folder, owner=root.new_file_owner, made=made)
        try:
            return create_file(dir_fd, name, data, owner=root.new_file_owner)
        finally:
            os.close(dir_fd)
    except FileChangedError as error:
        raise changed(place) from error
    except OSError as error:
        raise refusal(error, place.parts) from error


def _remove_made(place: Place, made: dict[Parts, os.stat_result]) -> None:
    """Take folders away again that were made for a file that could not be; others' stay."""
    for parts, info in reversed(made.items()):
        # One that others have put something into stays, as does one that was moved away.
        with suppress(OSError, PathRefused):
            folder, _ = place.tree.open_folder(parts[:-1], for_listing=False)
            try:
                there = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
                if there.st_ino == info.st_ino:
                    os.rmdir(parts[-1], dir_fd=folder)
            finally:
                os.close(folder)


def store(
    target: Target,
    new: Content,
    *,
    diff: str,
    replacements: int = 0,
    cache: FileStateCache,
    journal: Journal | None,
) -> Written:
    """Put a new content in the place of a file that was read.

    Raises:
        PathRefused: disk full, read-only, permission.
        InvalidInput: ``changed``: somebody else wrote to it meanwhile.
    """
    place, expected = target.place, target.expected
    data = file_bytes(new)
    folder, name = parent_and_name(place.parts)
    if journal is not None:
        old = expected.info
        before = BeforeImage(expected.content, old.st_mode & 0o777, old.st_mtime_ns)
        journal.record(place.parts, before)
    dir_fd, _ = place.tree.open_folder(folder, for_listing=False)
    try:
        info = replace_file(dir_fd, name, data, expected=expected)
    except FileChangedError as error:
        cache.forget(place.parts)
        raise changed(place) from error
    except OSError as error:
        raise refusal(error, place.parts) from error
    finally:
        os.close(dir_fd)
    if journal is not None:
        journal.wrote(place.parts, info, made={})
    _remember(cache, place, info, data, new.encoding)
    return Written(place.text, False, len(data), new.encoding, diff, replacements)


def _remember(
    cache: FileStateCache, place: Place, info: os.stat_result, data: bytes, encoding: Encoding
) -> None:
    cache.wrote(
        place.parts,
        FileState(
            FileIdentity.of(info),
            content_sha256=content_hash(data),
            encoding=encoding,
            newline=newline_of(data, encoding),
        ),
    )


def _encoded(text: str, codec: str, *, field: str) -> bytes:
    try:
        data = text.encode(codec)
    except UnicodeEncodeError as error:
        raise unencodable(error, field=field, codec=codec) from None
    if len(data) > MAX_EDITED_BYTES:
        raise refuse(
            field, "too_large", f"{field} is {len(data)} bytes long; at most {MAX_EDITED_BYTES}."
        )
    return data


def unencodable(error: UnicodeEncodeError, *, field: str, codec: str) -> InvalidInput:
    """The refusal of a character that the file's encoding does not have."""
    character = ascii(error.object[error.start])
    return refuse(
        field,
        "encoding",
        f"{field} holds {character}, which {codec} cannot express; the file keeps its encoding.",
    )
