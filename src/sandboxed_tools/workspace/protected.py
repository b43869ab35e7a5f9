"""Changes that need an explicit yes, because a program on the host acts on the file by itself.

A hook, an editor's task, a start-up file or a CI definition runs with the rights of whoever opens
the project next. A link that leaves the workspace makes later writers leave it too.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Final

from sandboxed_tools.workspace.change import Change
from sandboxed_tools.workspace.change_paths import PlacedChange
from sandboxed_tools.workspace.folded import folded
from sandboxed_tools.workspace.protected_names import GROUPS
from sandboxed_tools.workspace.spelling import Parts
from sandboxed_tools.workspace.way_out import LinkAt, leads_out

__all__ = ["Exists", "Protection", "holds_protected", "protected_reason"]

_GIT_ORDINARY: Final = (
    *(["objects"], ["refs"], ["logs"], ["index"], ["head"], ["orig_head"], ["commit_editmsg"]),
    ["packed-refs"],
)
"""What every commit writes, as the one name that follows ``.git``."""

_IN_REPOSITORY: Final = frozenset(
    ["head", "objects", "refs", "commondir", "config", "config.worktree", "hooks", "info"]
)
"""What makes a folder of any name a repository (gitrepository-layout(5)), or configures it."""

_DEEPEST: Final = 3
"""``objects/info/alternates``: names of what matters in a repository. Looking at more would let a
deep tree of such names cost its depth for each of its names."""

Exists = Callable[[Parts], bool]


def protected_reason(
    change: Change,
    *,
    was_there: Exists,
    is_there: Exists,
    link_at: LinkAt = lambda _: None,
    extra: tuple[str, ...] = (),
) -> str | None:
    """Why a single change is held for an explicit yes; see :class:`Protection`."""
    protection = Protection(was_there=was_there, is_there=is_there, link_at=link_at, extra=extra)
    return protection.reason(PlacedChange(change, change.parts, 0))


class Protection:
    """Says of the changes of a set, in their order, which are held for an explicit yes.

    ``was_there`` tells whether the workspace held a path before the call, ``is_there`` whether it
    does afterwards, and ``link_at`` what links say then. ``extra`` are further patterns, of one
    name or of names joined by slashes, that are looked for at any depth. Neither case counts, nor
    what else file systems may overlook in a name.

    What the names of a folder say is kept for everything in it: each change costs its own names.
    """

    def __init__(
        self,
        *,
        was_there: Exists,
        is_there: Exists,
        link_at: LinkAt = lambda _: None,
        extra: tuple[str, ...] = (),
    ) -> None:
        self._was_there = was_there
        self._is_there = is_there
        self._link_at = link_at
        self._groups = (*GROUPS, (extra, "the policy protects it")) if extra else GROUPS
        self._any = tuple(pattern for patterns, _ in self._groups for pattern in patterns)
        self._on_the_way = _on_the_way(self._any)
        self._span = 1 + max(pattern.count("/") for pattern in self._any)
        # Of the path of the last change: its names, the first group after each, and where .git is.
        self._names: list[str] = []
        self._found: list[int] = []
        self._git: list[int] = []

    def reason(self, item: PlacedChange) -> str | None:
        """Why the change is held, in words; ``None`` when it is not."""
        change = item.change
        self._go_to(item)
        if self._configures_git(item):
            return "it belongs to a git repository's configuration, or makes a repository"
        if _leaves(item, self._link_at):
            return "it is a link that leaves the workspace"
        if _is_link(change) and self._on_the_way.search(self._end()) is not None:
            return "it is a link in the place of a folder that holds what is protected"
        if self._found[-1] < len(self._groups):
            return self._groups[self._found[-1]][1]
        for index in range(max(0, len(self._names) - 2), len(self._names)):
            is_folder_of_programs = self._names[index] in ("bin", "scripts")
            if is_folder_of_programs and self._is_there((*item.parts[:index], b"pyvenv.cfg")):
                return "it is a program of a virtual environment"
        return None

    def _go_to(self, item: PlacedChange) -> None:
        del self._names[item.shared :], self._found[item.shared :]
        while self._git and self._git[-1] >= item.shared:
            self._git.pop()
        for part in item.parts[item.shared :]:
            name = folded(part)
            if name == ".git":
                self._git.append(len(self._names))
            self._names.append(name)
            self._found.append(min([*self._found[-1:], self._first_group()]))

    def _first_group(self) -> int:
        """The first group with a pattern that is found in the last names, or how many there are."""
        end = self._end()
        if _pattern(self._any).search(end) is None:
            return len(self._groups)
        found = (_pattern(patterns).search(end) is not None for patterns, _ in self._groups)
        return next(index for index, is_found in enumerate(found) if is_found)

    def _end(self) -> str:
        """As many of the last names as the longest pattern has."""
        return "/".join(self._names[-self._span :])

    def _configures_git(self, item: PlacedChange) -> bool:
        names, parts = self._names, item.parts
        for index in self._git:
            if not self._was_there((*parts[: index + 1], b"HEAD")):
                return True
            if _is_configured(item.change, names[index + 1 : index + 3]):
                return True
        for index in range(max(0, len(names) - _DEEPEST), len(names)):
            if names[index] in _IN_REPOSITORY and _is_repository(parts[:index], self._is_there):
                # A bare repository: git takes any folder for one that is laid out so.
                if not _is_repository(parts[:index], self._was_there):
                    return True
                if _is_configured(item.change, names[index : index + 2]):
                    return True
        return False


def _is_configured(change: Change, below: list[str]) -> bool:
    """Whether this is more than what every commit writes; ``below`` are names in a repository."""
    if below[:1] not in _GIT_ORDINARY or below[:2] == ["objects", "info"]:
        return True
    # Through a link git would write what it logs and packs somewhere else.
    return _is_link(change)


def holds_protected(names: Iterable[Parts], extra: tuple[str, ...]) -> bool:
    """Whether a policy protects any of these paths, as when a folder goes with all it holds."""
    if not extra:
        return False
    pattern = _pattern(extra)
    return any(pattern.search(folded(b"/".join(parts))) is not None for parts in names)


def _is_repository(folder: Parts, exists: Exists) -> bool:
    if not exists((*folder, b"HEAD")):
        return False
    has_own = exists((*folder, b"objects")) and exists((*folder, b"refs"))
    return has_own or exists((*folder, b"commondir"))


def _is_link(change: Change) -> bool:
    return change.after is not None and change.after.kind == "symlink"


@functools.cache
def _on_the_way(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Finds a path that ends where the last name of one of these patterns is still to come."""
    heads = {
        pattern.rsplit("/", count)[0]
        for pattern in patterns
        for count in range(1, pattern.strip("/").count("/") + 1)
    }
    return re.compile(
        f"{_pattern(tuple(sorted(heads))).pattern}\\Z" if heads else "(?!)", re.DOTALL
    )


@functools.cache
def _pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Finds any of these names, or names side by side, in a path. Wildcards stay in a name."""
    spelled = (
        re.escape(pattern.casefold()).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
        for pattern in patterns
    )
    return re.compile(f"(?:^|/)(?:{'|'.join(spelled)})(?=/|\\Z)", re.DOTALL)


def _leaves(item: PlacedChange, link_at: LinkAt) -> bool:
    """Whether the change leaves a link that leads out."""
    change, after = item.change, item.change.after
    if after is None or after.kind != "symlink" or after.target is None:
        return False
    if change.before is not None and change.before.target == after.target:
        return False
    return leads_out(item.parts, after.target, link_at)
