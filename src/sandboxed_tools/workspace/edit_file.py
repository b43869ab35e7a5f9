"""Replacing one text with another in a file, after eight validations."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from sandboxed_tools.workspace.diff import Replacement, diff_of
from sandboxed_tools.workspace.edit_hints import closest_place
from sandboxed_tools.workspace.edit_text import (
    Content,
    Match,
    content_of,
    count_matches,
    first_matches,
    insertion,
    overlaps_itself,
    replaced,
)
from sandboxed_tools.workspace.journal_record import Journal
from sandboxed_tools.workspace.root import Place, WorkspaceRoot
from sandboxed_tools.workspace.spelling import Parts, shown
from sandboxed_tools.workspace.state_cache import FileStateCache
from sandboxed_tools.workspace.target import (
    MAX_EDITED_BYTES,
    check_known,
    check_type,
    missing,
    open_target,
    parent_and_name,
    read_target,
    refuse,
)
from sandboxed_tools.workspace.write_file import Written, create, store, unencodable

__all__ = ["EditRequest", "edit_file"]

_MAX_NAMED_LINES: Final = 10
_MAX_SHOWN_MATCHES: Final = 200


@dataclass(frozen=True, slots=True)
class EditRequest:
    """What to replace with what; an empty ``old_string`` makes a new file."""

    old_string: str
    new_string: str
    replace_all: bool = False


def edit_file(
    root: WorkspaceRoot,
    path: str | os.PathLike[str],
    request: EditRequest,
    *,
    cache: FileStateCache,
    cwd: Parts = (),
    journal: Journal | None = None,
) -> Written:
    """Replace ``old_string`` with ``new_string``; everything else stays as it is, byte by byte.

    Both are taken with plain line feeds; what is put in gets the line ends of its place. Encoding,
    byte order mark, mode, owner and extended attributes are kept; other hard links are not.

    Raises:
        InvalidInput: with the code of the validation that failed, in this order: 1 ``no_change``;
            3 ``exists``; 4 ``too_large``, ``notebook``, ``binary``; 5 ``not_read``;
            6 ``changed``; 7 ``not_found``; 8 ``not_unique``; then ``encoding`` and ``too_large``
            for the result.
        PathRefused: validations 2 and 3, by its ``reason``: outside, denied, a link, missing, no
            regular file, …; then disk full and the like.
    """
    if request.old_string == request.new_string:
        raise refuse("new_string", "no_change", "old_string and new_string are the same.")
    place = root.locate(path, cwd=cwd, for_writing=True)
    parent_and_name(place.parts)
    file = open_target(root, place)
    if file is None:
        if request.old_string:
            raise missing(root, place)
        return create(
            root, place, request.new_string, field="new_string", cache=cache, journal=journal
        )
    with file:
        if not request.old_string:
            raise refuse(
                "old_string",
                "exists",
                f"{shown(place.text)!r} exists already; an empty old_string makes a new file. "
                "Say what to replace, or use Write.",
            )
        check_type(place, file)
        target = read_target(place, file)
        check_known(target, cache)
        content = content_of(target.expected.content, target.encoding)
        count = _checked_count(place, content, request)
        result = _result(place, content, request, count=count)
        diff = _diff(place, content, request)
        return store(target, result, diff=diff, replacements=count, cache=cache, journal=journal)


def _checked_count(place: Place, content: Content, request: EditRequest) -> int:
    count = count_matches(content, request.old_string)
    if not count:
        hint = closest_place(content, request.old_string)
        raise refuse(
            "old_string",
            "not_found",
            f"old_string does not occur in {shown(place.text)!r}."
            + (f" {hint}" if hint else " Read the file again."),
        )
    if request.replace_all:
        return count
    matches = first_matches(content, request.old_string, at_most=_MAX_NAMED_LINES)
    if count > 1 or overlaps_itself(content, matches[0]):
        lines = ", ".join(map(str, _line_numbers(content.data, matches)))
        raise refuse(
            "old_string",
            "not_unique",
            f"old_string occurs {max(count, 2)} times in {shown(place.text)!r} (lines {lines}"
            f"{', …' if count > len(matches) else ''}). Add lines around it until it is unique, "
            "or set replace_all.",
        )
    return count


def _line_numbers(data: bytes, matches: list[Match]) -> list[int]:
    numbers: list[int] = []
    line, position = 1, 0
    for match in matches:
        line += data.count(b"\n", position, match.start)
        position = match.start
        numbers.append(line)
    return numbers


def _result(place: Place, content: Content, request: EditRequest, *, count: int) -> Content:
    # Bounded before it is built: a megabyte in the place of every letter is a terabyte.
    old, new = request.old_string, request.new_string
    added = len(new.encode("utf-8", "replace")) + new.count("\n")
    removed = len(old.encode(content.codec).replace(b"\r\n", b"\n"))
    if len(content.data) + count * (added - removed) > MAX_EDITED_BYTES:
        raise refuse(
            "new_string",
            "too_large",
            f"{shown(place.text)!r} would become larger than {MAX_EDITED_BYTES} bytes.",
        )
    try:
        return replaced(content, old, new)
    except UnicodeEncodeError as error:
        raise unencodable(error, field="new_string", codec=content.codec) from None


def _diff(place: Place, content: Content, request: EditRequest) -> str:
    replacements = [
        Replacement(
            match.start,
            match.end,
            insertion(content, request.new_string, line_end=match.line_end),
        )
        for match in first_matches(content, request.old_string, at_most=_MAX_SHOWN_MATCHES)
    ]
    name = shown(place.text)
    return diff_of(content.data, replacements, codec=content.codec, from_name=name, to_name=name)
