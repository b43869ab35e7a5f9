"""Whether a symbolic link leads out of the workspace, by its text and by the links on its way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sandboxed_tools.workspace.spelling import Parts

__all__ = ["LinkAt", "leads_out"]

LinkAt = Callable[[Parts], bytes | None]
"""What the link at a path says; ``None`` where there is no link. No link is followed on the way."""

_MAX_LINKS: Final = 40
"""More than these the kernel does not follow (path_resolution(7)): the path leads nowhere then."""

_MAX_NAMES: Final = 255
"""A way of more names counts as leading out: to look at all of them could take for ever."""

_MAX_NAME_BYTES: Final = 255
"""No Linux file system has longer names (NAME_MAX): the path leads nowhere then."""


def leads_out(parts: Parts, target: bytes, link_at: LinkAt) -> bool:
    """Whether a link at ``parts`` with this ``target`` leads out, or might."""
    if _by_its_text(parts, target):
        return True
    place = list(parts[:-1])
    ahead = _names(target)
    links = names = 0
    while ahead:
        name = ahead.pop()
        names += 1
        if names > _MAX_NAMES:
            return True
        if name == b"..":
            if not place:
                return True
            place.pop()
            continue
        if len(name) > _MAX_NAME_BYTES:
            return False
        place.append(name)
        found = link_at(tuple(place))
        if found is None:
            continue
        links += 1
        if links > _MAX_LINKS:
            return False
        if found.startswith(b"/"):
            return True
        place.pop()
        ahead += _names(found)
    return False


def _names(target: bytes) -> list[bytes]:
    """The names of a path, the first one last."""
    return [name for name in reversed(target.split(b"/")) if name not in (b"", b".")]


def _by_its_text(parts: Parts, target: bytes) -> bool:
    if target.startswith(b"/"):
        return True
    depth = len(parts) - 1
    went_down = False
    for name in target.split(b"/"):
        if name in (b"", b"."):
            continue
        if name == b"..":
            depth -= 1
            # Up again after a name that may later become a link: it leads where that one leads.
            if went_down or depth < 0:
                return True
        else:
            went_down = True
    return False
