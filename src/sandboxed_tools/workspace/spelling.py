"""From the text of a path, as a model writes it, to the names below a root.

Only text is looked at here; what the names lead to is for :mod:`.confined` to decide.
"""

from __future__ import annotations

import os
from typing import Final

from sandboxed_tools.errors import PathRefused
from sandboxed_tools.tool.foreign_text import for_terminal

__all__ = [
    "MOUNT_NAME",
    "Parts",
    "one_line_name",
    "parse_path",
    "path_text",
    "shared_length",
    "shown",
    "split_text",
]

Parts = tuple[bytes, ...]
"""Names below a root, outermost first; empty for the root itself; never ``.``, ``..`` or empty."""

MOUNT_NAME: Final = b"/workspace"
"""Where a container sees the workspace, besides its host path."""

_MAX_BYTES: Final = 64 * 1024
_SHOWN_CHARS: Final = 300
_ESCAPED: Final = {code: f"\\x{code:02x}" for code in (0x0D, 0x1B, *range(0x80, 0xA0))}


def shown(text: str | bytes) -> str:
    """A path for a message: one line, no control characters, not too long."""
    text = os.fsdecode(text)
    if len(text) > _SHOWN_CHARS:
        text = f"{text[: _SHOWN_CHARS // 2]}…{text[-_SHOWN_CHARS // 2 :]}"
    return one_line_name(text)


def one_line_name(text: str | bytes) -> str:
    """A path on one line, from which no control sequence was dropped but escaped as ``\\x1b``.

    Without what stands in it, a name would be the name of another file.
    """
    return for_terminal(os.fsdecode(text).translate(_ESCAPED), one_line=True)


def path_text(parts: Parts) -> str:
    """The path relative to its root; lone surrogates stand for undecodable bytes (PEP 383)."""
    return os.fsdecode(b"/".join(parts)) if parts else "."


def shared_length(first: bytes, second: bytes) -> int:
    """How many leading bytes two relative paths share, as whole names with the slash after each.

    A slash is counted after the last name of a path, too. Paths of thousands of names are compared
    without being taken apart.
    """
    first, second = first + b"/", second + b"/"
    low, high = 0, min(len(first), len(second))
    if first[:high] == second[:high]:
        low = high
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return first.rfind(b"/", 0, low) + 1


def split_text(text: str | os.PathLike[str]) -> tuple[bool, Parts]:
    """Whether a path is absolute, and its names with ``.`` and doubled slashes gone.

    ``..`` stays in, and ``~`` is a name like any other.

    Raises:
        PathRefused: NUL bytes, characters that no file name can hold, or more than 64 KiB.
    """
    text = os.fspath(text)
    if "\0" in text:
        raise PathRefused(f"The path {shown(text)!r} holds a NUL byte.", reason="nul")
    try:
        raw = os.fsencode(text)
    except UnicodeEncodeError:
        raise PathRefused(
            f"The path {shown(text)!r} holds a character that no file name can hold.",
            reason="encoding",
        ) from None
    if len(raw) > _MAX_BYTES:
        raise PathRefused(
            f"The path is {len(raw)} bytes long; at most {_MAX_BYTES} are allowed.",
            reason="too_long",
        )
    return raw.startswith(b"/"), tuple(name for name in raw.split(b"/") if name not in (b"", b"."))


def parse_path(
    text: str | os.PathLike[str], *, roots: tuple[bytes, ...], cwd: Parts = ()
) -> tuple[int, Parts]:
    """Which root a path is below (its index), and the names from there.

    ``roots`` are absolute host paths, the workspace first. A relative path starts at ``cwd`` below
    the workspace. ``/workspace`` is another spelling of the workspace. ``..`` is taken only at the
    start of a relative path, where it cancels names of ``cwd``: behind a name that may be a link,
    the text alone does not say where it leads.

    Raises:
        PathRefused: ``outside`` or ``dotdot``, or as :func:`split_text`.
    """
    is_absolute, names = split_text(text)
    if not is_absolute:
        start = list(cwd)
        ups = next((i for i, name in enumerate(names) if name != b".."), len(names))
        if ups > len(start):
            raise _outside(text, roots)
        names = (*start[: len(start) - ups], *names[ups:])
    if b".." in names:
        raise PathRefused(
            f"The path {shown(os.fspath(text))!r} holds '..' behind a name; "
            "write it without '..', relative to the workspace.",
            reason="dotdot",
        )
    if not is_absolute:
        return 0, names
    matches = [
        (len(prefix), -index, names[len(prefix) :])
        for index, root in enumerate((*roots, MOUNT_NAME))
        if names[: len(prefix := _names(root))] == prefix
    ]
    if not matches:
        raise _outside(text, roots)
    _, index, rest = max(matches, key=lambda match: match[:2])
    return (-index if -index < len(roots) else 0), rest


def _names(root: bytes) -> Parts:
    return tuple(name for name in root.split(b"/") if name)


def _outside(text: str | os.PathLike[str], roots: tuple[bytes, ...]) -> PathRefused:
    return PathRefused(
        f"The path {shown(os.fspath(text))!r} is outside the workspace. "
        "Use a path relative to the workspace, or one that begins with /workspace/ or "
        f"{shown(roots[0])}/.",
        reason="outside",
    )
