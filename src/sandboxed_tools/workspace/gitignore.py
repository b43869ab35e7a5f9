"""``.gitignore`` rules, matched without regular expressions over whole paths.

The files come from a hostile tree: they are bounded, read like any other file of it, and cannot
take long to match (:mod:`.pattern`). The language is gitignore(5): the last matching rule wins,
``!`` takes a rule back, a slash at the end means folders, one elsewhere ties a rule to its folder,
and nothing below an ignored folder can be taken back.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, replace
from typing import Final

from sandboxed_tools.errors import InvalidInput, PathRefused
from sandboxed_tools.workspace.confined import ConfinedTree
from sandboxed_tools.workspace.name_pattern import has_open_bracket
from sandboxed_tools.workspace.pattern import GlobPattern, compile_glob
from sandboxed_tools.workspace.spelling import Parts

__all__ = ["GIT", "SEARCH", "IgnoreRules", "parse_gitignore"]

_MAX_FILE_BYTES: Final = 256 * 1024
_MAX_RULES: Final = 2000
_MAX_RULES_IN_FORCE: Final = 4000
"""In one folder and those above it together: every file of the folder is held against all."""

GIT: Final = (b".gitignore",)
"""Git's own rules."""

SEARCH: Final = (b".rgignore", b".ignore", b".gitignore")
"""What ripgrep obeys, the stronger first: a match in one decides, whatever the others say."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: GlobPattern
    is_negated: bool
    only_folders: bool
    is_anchored: bool


@dataclass(frozen=True, slots=True)
class _Layer:
    """The rules of one file, in the folder at ``depth`` below the root."""

    name: bytes
    depth: int
    rules: tuple[_Rule, ...]

    def verdict(self, parts: Parts, *, is_folder: bool) -> bool | None:
        relative: str | None = None
        for rule in reversed(self.rules):
            if rule.only_folders and not is_folder:
                continue
            if rule.is_anchored:
                relative = relative or os.fsdecode(b"/".join(parts[self.depth :]))
                text = relative
            else:
                text = os.fsdecode(parts[-1])
            if rule.pattern.matches(text):
                return not rule.is_negated
        return None


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules that hold in one folder: its own and those of the folders above.

    ``names`` are the files that are looked for in each folder; ``layers`` what was found.
    """

    names: tuple[bytes, ...] = GIT
    layers: tuple[_Layer, ...] = ()

    def entered(self, tree: ConfinedTree, parts: Parts) -> IgnoreRules:
        """The rules inside a folder: these, and the ones in its own files, if any."""
        if sum(len(layer.rules) for layer in self.layers) > _MAX_RULES_IN_FORCE:
            return self
        found = [
            _Layer(name, len(parts), rules)
            for name in self.names
            if (rules := parse_gitignore(_content(tree, (*parts, name))))
        ]
        return replace(self, layers=(*found, *self.layers)) if found else self

    def ignores(self, parts: Parts, *, is_folder: bool) -> bool:
        """Whether a path is ignored, given that no folder above it is."""
        for name in self.names if self.layers else ():
            for layer in self.layers:
                verdict = layer.verdict(parts, is_folder=is_folder) if layer.name == name else None
                if verdict is not None:
                    return verdict
        return False


def parse_gitignore(content: bytes) -> tuple[_Rule, ...]:
    """The rules of one file; lines that are no pattern are skipped, as git does."""
    rules: list[_Rule] = []
    for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        rule = _rule(os.fsdecode(line.removesuffix(b"\r")))
        if rule is not None:
            rules.append(rule)
            if len(rules) == _MAX_RULES:
                break
    return tuple(rules)


@functools.lru_cache(maxsize=4096)
def _rule(line: str) -> _Rule | None:
    line = _without_trailing_spaces(line)
    if not line or line.startswith("#"):
        return None
    is_negated = line.startswith("!")
    line = line[1:] if is_negated else line
    only_folders = line.endswith("/")
    line = line.removesuffix("/")
    is_anchored = "/" in line
    if line.startswith("\\") and line[1:2] in ("!", "#"):
        line = line[1:]
    # Braces mean themselves in gitignore.
    text = line.removeprefix("/").replace("{", "\\{").replace("}", "\\}")
    names = text.split("/")
    if any(name in ("", ".") or has_open_bracket(name) for name in names):
        # Git compares with paths as it spells them itself: such a rule never matches.
        return None
    if text.startswith("!"):
        text = "\\" + text
    try:
        pattern = compile_glob(text, hidden=True)
    except InvalidInput:
        return None
    return _Rule(pattern, is_negated, only_folders, is_anchored)


def _without_trailing_spaces(line: str) -> str:
    end = len(line)
    while end and line[end - 1] == " " and (end < 2 or line[end - 2] != "\\"):
        end -= 1
    return line[:end]


def _content(tree: ConfinedTree, parts: Parts) -> bytes:
    try:
        with tree.open_regular(parts, follow_links=False) as file:
            return os.read(file.fd, _MAX_FILE_BYTES)
    except (PathRefused, OSError):
        return b""
