"""Finding files by a pattern, newest first, in memory that does not grow with the tree."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sandboxed_tools.workspace.gitignore import IgnoreRules
from sandboxed_tools.workspace.pattern import GlobPattern, Positions, compile_glob
from sandboxed_tools.workspace.root import Place, WorkspaceRoot
from sandboxed_tools.workspace.spelling import Parts, path_text
from sandboxed_tools.workspace.walk import Folder, Walk, WalkBudget

__all__ = ["MAX_NAMES", "FindOptions", "FoundFiles", "find_files"]

MAX_NAMES: Final = 100
_GIT_FOLDER: Final = ".git"


@dataclass(frozen=True, slots=True)
class FindOptions:
    """How to look: ``hidden`` also where a wildcard meets a leading dot, ``gitignore`` obeyed."""

    hidden: bool = False
    gitignore: bool = False
    max_names: int = MAX_NAMES
    budget: WalkBudget = field(default_factory=WalkBudget)
    is_cancelled: Callable[[], bool] = bool


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Names, newest first, and how complete they are.

    Attributes:
        names: at most as many as were asked for; relative to the workspace, or absolute in a read
            root. Lone surrogates stand for undecodable bytes (PEP 383).
        total: how many files matched, named here or not.
        stopped: why the search ended early (``entries``, ``time``, ``cancelled``), else ``None``.
        unreadable: folders that could not be listed, or were too deep.
    """

    names: tuple[str, ...]
    total: int
    stopped: str | None = None
    unreadable: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether every file that matches was counted."""
        return self.stopped is None and not self.unreadable


def find_files(
    root: WorkspaceRoot,
    pattern: str,
    *,
    path: str | os.PathLike[str] = ".",
    cwd: Parts = (),
    options: FindOptions | None = None,
) -> FoundFiles:
    """The files below ``path`` whose relative path matches, newest modification first.

    Regular files and links are found, folders, FIFOs, sockets and devices are not. A link is found
    by its own name and time; it is never followed. Files changed at the same time come by name.

    Raises:
        InvalidInput: the pattern cannot be used.
        PathRefused: the folder is outside, denied, missing, or no folder.
    """
    options = options or FindOptions()
    compiled = compile_glob(pattern, hidden=options.hidden)
    place, fd = root.open_folder(path, cwd=cwd)
    os.close(fd)
    search = _Search(place, compiled, options, root.is_denied)
    search.run()
    walk = search.walk
    return FoundFiles(
        names=tuple(place.name_of(parts) for parts in search.newest()),
        total=search.total,
        stopped=walk.stopped,
        unreadable=walk.unreadable + walk.too_deep,
    )


_State = tuple[Positions, IgnoreRules]


class _Search:
    """One search: the walk, and the newest names so far."""

    def __init__(
        self,
        place: Place,
        pattern: GlobPattern,
        options: FindOptions,
        is_denied: Callable[[Parts], bool] | None,
    ) -> None:
        self.walk: Walk[_State] = Walk(
            place.tree, budget=options.budget, is_cancelled=options.is_cancelled
        )
        self.total = 0
        self._place = place
        self._pattern = pattern
        self._options = options
        self._is_denied = is_denied
        self._heap: list[tuple[int, bytes]] = []

    def run(self) -> None:
        start = self._place.parts
        rules = IgnoreRules()
        if self._options.gitignore:
            for depth in range(len(start)):
                rules = rules.entered(self._place.tree, start[:depth])
        self.walk.push(start, (self._pattern.start(), rules))
        for folder in self.walk:
            self._visit(folder)

    def newest(self) -> list[Parts]:
        ordered = sorted(self._heap, reverse=True)
        return [tuple(_turned(path[:-1]).split(b"/")) for _, path in ordered]

    def _visit(self, folder: Folder[_State]) -> None:
        positions, rules = folder.state
        if self._options.gitignore:
            rules = rules.entered(self._place.tree, folder.parts)
        accepts = self._acceptor(positions)
        for entry in self.walk.entries(folder):
            name = entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    self._enter(folder.parts, name, positions, rules)
                elif (
                    accepts(name)
                    and (entry.is_file(follow_symlinks=False) or entry.is_symlink())
                    and (self._is_plain or self._is_wanted(folder.parts, name, rules))
                ):
                    modified_ns = entry.stat(follow_symlinks=False).st_mtime_ns
                    self._found(modified_ns, folder.parts, name)
            except FileNotFoundError:
                continue

    @property
    def _is_plain(self) -> bool:
        return (
            self._is_denied is None and not self._options.gitignore and not self._pattern.excludes
        )

    def _acceptor(self, positions: Positions) -> Callable[[str], object]:
        """The fastest function that answers for the files of one folder."""
        acceptors = self._pattern.acceptors(positions)
        only = acceptors[0].matches if len(acceptors) == 1 else None
        if only is not None and (self._pattern.hidden or acceptors[0].takes_hidden):
            return only
        if only is not None:
            return lambda name: name[0] != "." and only(name)
        return lambda name: self._pattern.accepts(acceptors, name)

    def _enter(self, parts: Parts, name: str, positions: Positions, rules: IgnoreRules) -> None:
        inside = self._pattern.enter(positions, name)
        if not inside:
            return
        below = (*parts, os.fsencode(name))
        if self._is_denied is not None and self._is_denied(below):
            return
        if self._options.gitignore and (
            name == _GIT_FOLDER or rules.ignores(below, is_folder=True)
        ):
            return
        self.walk.push(below, (inside, rules))

    def _is_wanted(self, parts: Parts, name: str, rules: IgnoreRules) -> bool:
        path = (*parts, os.fsencode(name))
        if self._is_denied is not None and self._is_denied(path):
            return False
        if self._options.gitignore and rules.ignores(path, is_folder=False):
            return False
        relative = path[len(self._place.parts) :]
        return not self._pattern.leaves_out(path_text(relative))

    def _found(self, modified_ns: int, parts: Parts, name: str) -> None:
        self.total += 1
        heap = self._heap
        is_full = len(heap) >= self._options.max_names
        if is_full and modified_ns < heap[0][0]:
            return
        # Turned round, so that the last name is the first to go among files of one time.
        path = _turned(b"/".join((*parts, os.fsencode(name)))) + b"\xff"
        if is_full:
            heapq.heappushpop(heap, (modified_ns, path))
        else:
            heapq.heappush(heap, (modified_ns, path))


_OPPOSITE: Final = bytes(range(255, -1, -1))


def _turned(path: bytes) -> bytes:
    """A path that sorts the other way round, and is itself again when it is turned once more."""
    return path.translate(_OPPOSITE)
