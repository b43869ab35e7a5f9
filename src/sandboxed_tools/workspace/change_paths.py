"""Going through changes in the order of their paths, without taking each path apart from its top.

A path grows with its depth, so all paths of a deep tree together grow with the square of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sandboxed_tools.workspace.change import Change
from sandboxed_tools.workspace.spelling import Parts, shared_length

__all__ = ["PlacedChange", "in_path_order", "placed"]


class PlacedChange(NamedTuple):
    """A change, the names of its path, and how many of them it shares with the one before."""

    change: Change
    parts: Parts
    shared: int


def placed(changes: Iterable[Change]) -> Iterator[PlacedChange]:
    """Each change with its names; quick where they come in the order of their paths."""
    path, folder = b"", b""
    parts: Parts = ()
    for change in changes:
        above, _, name = change.path.rpartition(b"/")
        if above == folder and parts:
            shared = len(parts) - 1
            parts = (*parts[:-1], name)
        else:
            length = shared_length(path, change.path) if parts else 0
            shared = path.count(b"/", 0, length) + (length > len(path) > 0)
            rest = change.path[length:]
            parts = (*parts[:shared], *(rest.split(b"/") if rest else ()))
        path, folder = change.path, above
        yield PlacedChange(change, parts, shared)


def in_path_order(path: bytes) -> bytes:
    """A key that sorts paths as the tuples of their names would be: parents first."""
    return path.replace(b"/", b"\0")
