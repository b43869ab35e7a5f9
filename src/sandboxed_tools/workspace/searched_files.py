"""Which files of a tree a search looks into."""

from __future__ import annotations

from collections.abc import Callable

from sandboxed_tools.errors import FieldError, InvalidInput
from sandboxed_tools.workspace.confined import ConfinedTree
from sandboxed_tools.workspace.gitignore import SEARCH, IgnoreRules
from sandboxed_tools.workspace.grep_result import FILE_TYPES, GrepOptions
from sandboxed_tools.workspace.pattern import GlobPattern, compile_glob
from sandboxed_tools.workspace.root import Place, WorkspaceRoot
from sandboxed_tools.workspace.spelling import Parts, path_text

__all__ = ["Selection", "parts_of"]


class Selection:
    """Decides by name: hidden, denied, ignored, glob, type. Whether it is a file is not asked here.

    Raises:
        InvalidInput: a glob that cannot be used; ``type``: no such file type.
    """

    def __init__(self, root: WorkspaceRoot, place: Place, options: GrepOptions) -> None:
        self._tree: ConfinedTree = place.tree
        self._start = place.parts
        self._hidden = options.hidden
        self._gitignore = options.gitignore
        self._is_denied: Callable[[Parts], bool] | None = root.is_denied
        self._patterns = _patterns(options)
        self._rules_of: dict[Parts, IgnoreRules] = {}

    def takes_folder(self, parts: Parts) -> bool:
        """Whether a folder is entered, given that the one above it is."""
        name = parts[-1]
        if not self._hidden and name.startswith(b"."):
            return False
        if self._is_denied is not None and self._is_denied(parts):
            return False
        if not self._gitignore:
            return True
        return name != b".git" and not self.rules(parts[:-1]).ignores(parts, is_folder=True)

    def takes_file(self, parts: Parts) -> bool:
        """Whether a file is searched, given that its folder is entered."""
        name = parts[-1]
        if not self._hidden and name.startswith(b"."):
            return False
        relative = path_text(parts[len(self._start) :])
        if not all(any(p.matches(relative) for p in either) for either in self._patterns):
            return False
        if self._is_denied is not None and self._is_denied(parts):
            return False
        return not self._gitignore or not self.rules(parts[:-1]).ignores(parts, is_folder=False)

    def takes(self, parts: Parts) -> bool:
        """Whether a file is searched, judged by its whole path from the start folder."""
        first = len(self._start) + 1
        return all(
            self.takes_folder(parts[:depth]) for depth in range(first, len(parts))
        ) and self.takes_file(parts)

    def rules(self, folder: Parts) -> IgnoreRules:
        """The ignore rules inside a folder; asked once for each folder."""
        missing = 0
        while missing <= len(folder) and folder[: len(folder) - missing] not in self._rules_of:
            missing += 1
        # From the top down, and not by recursion: a path can be two thousand folders deep.
        for depth in range(len(folder) - missing + 1, len(folder) + 1):
            above = self._rules_of[folder[: depth - 1]] if depth else IgnoreRules(SEARCH)
            self._rules_of[folder[:depth]] = above.entered(self._tree, folder[:depth])
        return self._rules_of[folder]


def _patterns(options: GrepOptions) -> list[tuple[GlobPattern, ...]]:
    """Every group must match by one of its patterns."""
    groups: list[tuple[GlobPattern, ...]] = []
    if options.glob is not None:
        groups.append((_anywhere(options.glob),))
    if options.file_type is not None:
        globs = FILE_TYPES.get(options.file_type)
        if globs is None:
            known = ", ".join(FILE_TYPES)
            raise InvalidInput(
                f"There is no file type of that name; there are: {known}.",
                fields=(FieldError("type", f"one of {known}", "type"),),
            )
        groups.append(tuple(_anywhere(glob) for glob in globs))
    return groups


def _anywhere(glob: str) -> GlobPattern:
    if "/" in glob:
        return compile_glob(glob, hidden=True)
    is_negated = glob.startswith("!")
    name = glob.removeprefix("!")
    return compile_glob(f"{'!' if is_negated else ''}**/{name}", hidden=True)


def parts_of(raw: bytes) -> Parts:
    """The names of a relative path, as another program prints it."""
    return tuple(name for name in raw.split(b"/") if name not in (b"", b"."))
