"""Glob patterns over names, in time that grows with the name and never explodes.

A pattern is matched name by name: ``**`` is any number of folders, everything else is one name. A
whole path turned into one regular expression, as glob libraries do, takes exponential or high
polynomial time on patterns such as ``**/**/**/*a*a*a*b``; here the folders are a set of positions
in the pattern, and one name is matched by :mod:`.name_pattern`.

Understood beside what a name's pattern may hold: ``**``, ``{a,b}``, ``{1..9}``, and ``!pattern``
for what is left out.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

import bracex

from sandboxed_tools.errors import FieldError, InvalidInput
from sandboxed_tools.tool.foreign_text import for_terminal
from sandboxed_tools.workspace.name_pattern import NameMatcher, name_matcher

__all__ = ["GlobPattern", "Positions", "compile_glob"]

Positions = frozenset[tuple[int, int]]
"""Where a path stands in a pattern: (alternative, component), several because of ``**``."""

_MAX_PATTERN_CHARS: Final = 4096
_MAX_ALTERNATIVES: Final = 256
_MAX_BRACES: Final = 40
_MAX_COMPONENTS: Final = 256
_MAX_COMPONENTS_TOGETHER: Final = 2000

_ANY_DEPTH: Final = "**"


@dataclass(frozen=True, slots=True)
class _Component:
    text: str
    matches: NameMatcher | None
    """``None`` for ``**``."""
    takes_hidden: bool


@dataclass(frozen=True, slots=True)
class GlobPattern:
    """A compiled pattern. Walk with it: ``start``, ``enter`` a folder, ``accepts`` a file.

    ``hidden=False`` keeps wildcards from matching a leading dot, as in a shell.
    """

    includes: tuple[tuple[_Component, ...], ...]
    excludes: tuple[tuple[_Component, ...], ...]
    hidden: bool

    def start(self) -> Positions:
        """The position of the folder that the pattern is relative to."""
        return _closed(self.includes, frozenset((i, 0) for i in range(len(self.includes))))

    def enter(self, positions: Positions, name: str) -> Positions:
        """The position in a folder below; empty when nothing below it can match."""
        is_hidden = name.startswith(".") and not self.hidden
        return _stepped(self.includes, positions, name, skip_hidden=is_hidden)

    def acceptors(self, positions: Positions) -> tuple[_Component, ...]:
        """The components that decide about a file in a folder at ``positions``."""
        found: dict[str, _Component] = {}
        for alternative, index in positions:
            components = self.includes[alternative]
            if index == len(components) - 1:
                found[components[index].text] = components[index]
        return tuple(found.values())

    def accepts(self, acceptors: tuple[_Component, ...], name: str) -> bool:
        """Whether a file's name matches one of a folder's acceptors."""
        if name.startswith(".") and not self.hidden:
            acceptors = tuple(each for each in acceptors if each.takes_hidden)
        return any(each.matches is None or each.matches(name) for each in acceptors)

    def matches(self, path: str) -> bool:
        """Whether a whole relative path matches and is not left out."""
        *folders, name = path.split("/")
        positions = self.start()
        for folder in folders:
            positions = self.enter(positions, folder)
        return self.accepts(self.acceptors(positions), name) and not self.leaves_out(path)

    def leaves_out(self, path: str) -> bool:
        """Whether a ``!`` alternative matches the whole path."""
        return bool(self.excludes) and _whole(self.excludes, path)


def compile_glob(text: str, *, hidden: bool = False, ignore_case: bool = False) -> GlobPattern:
    """Compile a pattern for paths that are relative to some folder.

    Raises:
        InvalidInput: an empty or absolute pattern, ``..`` in it, NUL, over 4096 characters, over
            256 alternatives or components.
    """
    alternatives = _expanded(text)
    includes = tuple(a for a in alternatives if not a.startswith("!"))
    excludes = tuple(a[1:] for a in alternatives if a.startswith("!"))
    compiled = functools.partial(_compiled, whole=text, ignore_case=ignore_case)
    found = GlobPattern(
        includes=tuple(compiled(a) for a in includes or (_ANY_DEPTH,)),
        excludes=tuple(compiled(a) for a in excludes),
        hidden=hidden,
    )
    if sum(map(len, (*found.includes, *found.excludes))) > _MAX_COMPONENTS_TOGETHER:
        raise _refused(
            text, f"has more than {_MAX_COMPONENTS_TOGETHER} components in all.", "too_many"
        )
    return found


def _refused(text: str, why: str, code: str) -> InvalidInput:
    message = f"The pattern {for_terminal(text[:200], one_line=True)!r} {why}"
    return InvalidInput(message, fields=(FieldError("pattern", why, code),))


def _expanded(text: str) -> list[str]:
    if len(text) > _MAX_PATTERN_CHARS:
        raise _refused(text, f"is longer than {_MAX_PATTERN_CHARS} characters.", "too_long")
    if not text.strip("!"):
        raise _refused(text, "is empty; '**' matches every file.", "empty")
    if "\0" in text:
        raise _refused(text, "holds a NUL byte.", "nul")
    if text.count("{") > _MAX_BRACES:
        # The expansion is recursive.
        raise _refused(text, f"has more than {_MAX_BRACES} braces.", "too_many")
    try:
        return list(bracex.iexpand(text, keep_escapes=True, limit=_MAX_ALTERNATIVES))
    except bracex.ExpansionLimitException:
        raise _refused(
            text, f"has more than {_MAX_ALTERNATIVES} alternatives.", "too_many"
        ) from None


def _compiled(text: str, *, whole: str, ignore_case: bool) -> tuple[_Component, ...]:
    if text.startswith("/"):
        raise _refused(
            whole, "is absolute; write it relative, and name a folder with 'path'.", "absolute"
        )
    components: list[_Component] = []
    for name in text.split("/"):
        if name == "..":
            raise _refused(whole, "holds '..'; name a folder with 'path' instead.", "dotdot")
        if name in ("", "."):
            continue
        if name == _ANY_DEPTH and components and components[-1].matches is None:
            continue
        components.append(_component(name, ignore_case=ignore_case))
    if not components:
        raise _refused(whole, "names no file.", "empty")
    if len(components) > _MAX_COMPONENTS:
        raise _refused(whole, f"has more than {_MAX_COMPONENTS} components.", "too_many")
    if components[-1].matches is None:
        components.append(_component("*", ignore_case=False))
    return tuple(components)


def _component(name: str, *, ignore_case: bool) -> _Component:
    if name == _ANY_DEPTH:
        return _Component(name, None, takes_hidden=False)
    return _Component(
        name,
        name_matcher(name, ignore_case=ignore_case),
        takes_hidden=name.startswith((".", "\\.")),
    )


def _closed(alternatives: tuple[tuple[_Component, ...], ...], positions: Positions) -> Positions:
    """Add the positions behind each ``**``, which may stand for no folder at all."""
    found = set(positions)
    for alternative, index in positions:
        components = alternatives[alternative]
        while index < len(components) - 1 and components[index].matches is None:
            index += 1
            found.add((alternative, index))
    return frozenset(found)


def _stepped(
    alternatives: tuple[tuple[_Component, ...], ...],
    positions: Positions,
    name: str,
    *,
    skip_hidden: bool,
) -> Positions:
    found: set[tuple[int, int]] = set()
    for alternative, index in positions:
        component = alternatives[alternative][index]
        if skip_hidden and not component.takes_hidden:
            continue
        if component.matches is None:
            found.add((alternative, index))
        elif index < len(alternatives[alternative]) - 1 and component.matches(name):
            found.add((alternative, index + 1))
    return _closed(alternatives, frozenset(found))


def _whole(alternatives: tuple[tuple[_Component, ...], ...], path: str) -> bool:
    *folders, name = path.split("/")
    positions = _closed(alternatives, frozenset((i, 0) for i in range(len(alternatives))))
    for folder in folders:
        positions = _stepped(alternatives, positions, folder, skip_hidden=False)
        if not positions:
            return False
    return any(
        index == len(alternatives[a]) - 1
        and ((matcher := alternatives[a][index].matches) is None or bool(matcher(name)))
        for a, index in positions
    )
