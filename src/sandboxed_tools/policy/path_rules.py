"""Rules for paths: ``src/**``, ``~/.ssh/**``, ``*.pem`` against what a call says it touches.

Patterns are gitignore's: without a slash a name at any depth, with one a path from the workspace;
``/`` and ``~/`` begin an absolute one. Paths are compared as text and, where links may lead
elsewhere, as what they lead to at this moment: an allow rule must match both, an ask or deny rule
either. The text may be stale when the file is opened: keeping inside the workspace is the work of
the confined access, not of rules.

A project's file may state patterns, and a call chooses the paths. So they are matched name by name
(:mod:`sandboxed_tools.workspace.pattern`): one regular expression over whole paths takes minutes
for ``*a*a*a*a*b``, and holds the interpreter's lock meanwhile.
"""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from typing import Final

from sandboxed_tools.errors import ConfigurationError, InvalidInput
from sandboxed_tools.workspace.name_pattern import has_open_bracket
from sandboxed_tools.workspace.pattern import GlobPattern, compile_glob

__all__ = ["PathPattern", "TouchedPath", "path_pattern", "touched_path"]

_MOUNT: Final = "/workspace"
_WILD: Final = re.compile(r"[*?\[\\]")
_LOOSE_END: Final = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")
_BRACES: Final = re.compile(r"\\.|[{}]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TouchedPath:
    """One path of a call: absolute spellings, and the workspace that relative patterns start at.

    ``climbs``: it holds ``..``, so that the text alone does not say where it leads.
    """

    spellings: tuple[str, ...]
    workspace: str | None
    climbs: bool


@dataclass(frozen=True, slots=True)
class _Matcher:
    """Whether a path is a match or below one. ``glob`` is ``None`` where everything is.

    ``only_itself``: what is below a match is none, as with ``src/*``.
    """

    glob: GlobPattern | None
    only_itself: bool

    def matches(self, text: str) -> bool:
        """In time that grows with the path and the pattern, whatever they are."""
        if self.glob is None:
            return True
        names = [name for name in text.split("/") if name]
        positions = self.glob.start()
        for index, name in enumerate(names):
            is_last = index == len(names) - 1
            if (is_last or not self.only_itself) and self.glob.accepts(
                self.glob.acceptors(positions), name
            ):
                return True
            positions = self.glob.enter(positions, name)
        return False


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A compiled pattern; ``folded`` ignores letter case and Unicode normalisation."""

    is_absolute: bool
    literal_head: str
    exact: _Matcher
    folded: _Matcher

    def surely_matches(self, path: TouchedPath) -> bool:
        """Whether every spelling matches to the letter: for allow rules."""
        return not path.climbs and all(
            (text := self._text(path, spelling)) is not None and self.exact.matches(text)
            for spelling in path.spellings
        )

    def may_match(self, path: TouchedPath) -> bool:
        """Whether any spelling matches, or is a folder that leads to a match."""
        for spelling in path.spellings:
            text = self._text(path, spelling)
            if text is None:
                # The workspace below it holds whatever a relative pattern means.
                below = path.workspace and path.workspace.startswith(spelling.rstrip("/") + "/")
                if below:
                    return True
                continue
            if self.folded.matches(_fold(text)):
                return True
            if self.literal_head and f"{self.literal_head}/".startswith(f"{text}/".lstrip("/")):
                return True
        return False

    def _text(self, path: TouchedPath, spelling: str) -> str | None:
        """What the pattern is matched against, without a leading slash."""
        if self.is_absolute:
            return spelling.lstrip("/")
        base = path.workspace
        if base is None:
            return None
        if spelling == base:
            return ""
        return spelling[len(base) + 1 :] if spelling.startswith(base.rstrip("/") + "/") else None


def touched_path(
    path: PurePath | str, *, workspace: PurePath | None, cwd: PurePath | None
) -> TouchedPath:
    """A path as a call states it: relative to ``cwd``, or absolute, or below ``/workspace``."""
    text = os.fspath(path)
    base = None if workspace is None else str(workspace)
    names = [name for name in text.split("/") if name not in ("", ".")]
    if base is not None and text.startswith("/") and names[:1] == [_MOUNT[1:]]:
        text = posixpath.join(base, *names[1:])
    start = str(cwd or workspace or "/")
    full = posixpath.normpath(posixpath.join(start, text))
    full = "/" + full.lstrip("/")
    spellings = [full]
    if "\0" not in full:
        try:
            real = os.path.realpath(full)
        except (OSError, ValueError):
            real = full
        if real != full:
            spellings.append(real)
    return TouchedPath(tuple(spellings), base, climbs=".." in names)


def path_pattern(text: str) -> PathPattern:
    """Compile the pattern of a rule.

    Raises:
        ConfigurationError: it is empty, a negation or a comment, or no pattern of gitignore's.
    """
    return _compiled(text, os.path.expanduser("~"))


@lru_cache(maxsize=4096)
def _compiled(text: str, home: str) -> PathPattern:
    pattern = text
    if text == "~" or text.startswith("~/"):
        if not home.startswith("/"):
            raise ConfigurationError(f"The pattern {text[:200]!r} needs a home folder.")
        pattern = re.sub(r"([\\*?\[\]])", r"\\\1", home.rstrip("/")) + text[1:]
    elif text.startswith("~"):
        raise ConfigurationError(f"The pattern {text[:200]!r}: only '~/' stands for a home folder.")
    is_absolute = pattern.startswith("/")
    if text.startswith(("!", "#")) or ".." in text.split("/") or not pattern.strip("/ "):
        raise ConfigurationError(
            f"The pattern {text[:200]!r} names no paths: it may not begin with '!' or '#', hold "
            "'..', or be empty."
        )
    return PathPattern(
        is_absolute=is_absolute,
        literal_head=_literal_head(pattern),
        exact=_matcher(pattern.removeprefix("./"), text),
        folded=_matcher(_fold(pattern.removeprefix("./")), text),
    )


def _matcher(pattern: str, text: str) -> _Matcher:
    """gitignore's language for one pattern, without negation."""
    if not pattern.endswith("\\ "):
        pattern = pattern.rstrip()
    pattern = pattern.rstrip("/")
    is_anchored = "/" in pattern
    names = [name for name in pattern.split("/") if name]
    while names and names[-1] == "**":
        names.pop()
    if not names or (names == ["*"] and not is_anchored):
        return _Matcher(None, only_itself=False)
    spelled = _BRACES.sub(_escaped_brace, "/".join(names))
    try:
        if any(has_open_bracket(name) or _LOOSE_END.search(name) for name in names):
            raise InvalidInput("a bracket is never closed, or a backslash is before nothing")
        glob = compile_glob(spelled if is_anchored else f"**/{spelled}", hidden=True)
    except (InvalidInput, re.error) as error:
        raise ConfigurationError(f"The pattern {text[:200]!r} is no path pattern.") from error
    return _Matcher(glob, only_itself=pattern.endswith("/*"))


def _escaped_brace(match: re.Match[str]) -> str:
    # Braces mean themselves in gitignore.
    return match[0] if match[0].startswith("\\") else f"\\{match[0]}"


def _literal_head(pattern: str) -> str:
    """The folders that an anchored pattern begins with, before its first wildcard."""
    if "/" not in pattern.rstrip("/"):
        return ""
    head = _WILD.split(pattern, maxsplit=1)[0]
    if head != pattern:
        head = head.rpartition("/")[0]
    return head.strip("/")


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
