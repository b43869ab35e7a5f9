"""The workspace as its tools hold it: checked once, then kept by descriptor."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from sandboxed_tools.errors import InvalidWorkspace, PathRefused
from sandboxed_tools.tool.state import state_dir
from sandboxed_tools.workspace.confined import ConfinedTree, OpenFile
from sandboxed_tools.workspace.denied import DeniedPaths
from sandboxed_tools.workspace.spelling import MOUNT_NAME, Parts, parse_path, path_text, shown

__all__ = ["Place", "WorkspaceRoot", "check_workspace"]

_SYSTEM_FOLDERS: Final = tuple(
    Path(text)
    for text in (
        *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc"),
        *("/run", "/sbin", "/sys", "/usr", "/var/lib/docker", "/var/run"),
    )
)
"""A sandbox image has its own of these, and a workspace mounted at its host path hides them."""

_SHARED_FOLDERS: Final = frozenset(Path(text) for text in ("/tmp", "/var/tmp", "/home"))


@dataclass(frozen=True, slots=True)
class Place:
    """A path that has been read as text: which tree, and the names in it."""

    tree: ConfinedTree
    parts: Parts
    is_writable: bool

    @property
    def text(self) -> str:
        """How results name it: relative to the workspace, absolute in a read root."""
        return self.name_of(self.parts)

    def name_of(self, parts: Parts) -> str:
        """How results name something else in the same tree."""
        relative = path_text(parts)
        if self.is_writable:
            return relative
        return self.tree.text if relative == "." else f"{self.tree.text}/{relative}"


class WorkspaceRoot:
    """An open workspace: every file tool reaches it, and nothing else, through this value.

    Attributes:
        path: the folder's host path without links, at the time of opening; for names, not for use.
        owner: UID and GID that new files get where the client may give files away.

    Close it, or use it in a ``with`` block. Safe to share between threads.
    """

    def __init__(
        self,
        *,
        path: Path,
        tree: ConfinedTree,
        owner: tuple[int, int],
        read_trees: tuple[ConfinedTree, ...],
        denied: DeniedPaths,
    ) -> None:
        self.path = path
        self.owner = owner
        self._trees = (tree, *read_trees)
        self._roots = tuple(os.fsencode(each.text) for each in self._trees)
        self._denied = denied
        self._is_open = True

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        read_roots: Iterable[str | os.PathLike[str]] = (),
        denied: Sequence[str] = (),
        use_openat2: bool | None = None,
    ) -> WorkspaceRoot:
        """Check a folder and open it.

        Args:
            read_roots: further folders that may be read, never written.
            denied: patterns of paths, in the workspace and in the read roots, that may be neither
                read nor written (:class:`~.denied.DeniedPaths`).
            use_openat2: ``False`` works as on a kernel before 5.6; ``None`` asks the kernel.

        Raises:
            InvalidWorkspace: the folder may not be a workspace; the message says why.
        """
        trees: list[ConfinedTree] = []
        try:
            resolved = check_workspace(path)
            trees.append(_open_tree(resolved, is_workspace=True, use_openat2=use_openat2))
            for root in read_roots:
                place = _resolved(Path(root))
                trees.append(_open_tree(place, is_workspace=False, use_openat2=use_openat2))
        except BaseException:
            for tree in trees:
                os.close(tree.fd)
            raise
        info = os.fstat(trees[0].fd)
        return cls(
            path=resolved,
            tree=trees[0],
            owner=(info.st_uid, info.st_gid),
            read_trees=tuple(trees[1:]),
            denied=DeniedPaths(denied),
        )

    def close(self) -> None:
        """Give the descriptors back; closing twice is no error."""
        if self._is_open:
            self._is_open = False
            for tree in self._trees:
                os.close(tree.fd)

    def __enter__(self) -> WorkspaceRoot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def tree(self) -> ConfinedTree:
        """The workspace itself, without its read roots."""
        return self._trees[0]

    @property
    def new_file_owner(self) -> tuple[int, int] | None:
        """Who new files are given to: the workspace's owner where the client is root."""
        return self.owner if os.geteuid() == 0 and self.owner != (0, 0) else None

    def locate(
        self, text: str | os.PathLike[str], *, cwd: Parts = (), for_writing: bool = False
    ) -> Place:
        """Read a path as text, and refuse what is outside or denied.

        Raises:
            PathRefused: ``outside``, ``dotdot``, ``nul``, ``encoding``, ``too_long``, ``denied``,
                ``read_only``.
        """
        if not self._is_open:
            raise PathRefused("The workspace has been closed.", reason="closed")
        index, parts = parse_path(text, roots=self._roots, cwd=cwd)
        if for_writing and index:
            raise PathRefused(
                f"{shown(os.fspath(text))!r} is in a folder that may only be read.",
                reason="read_only",
            )
        self._denied.check(parts)
        return Place(self._trees[index], parts, is_writable=index == 0)

    def open_file(
        self, text: str | os.PathLike[str], *, cwd: Parts = (), follow_links: bool = True
    ) -> tuple[Place, OpenFile]:
        """Open a regular file for reading; links that stay inside are followed.

        The place that comes back has the true names, without links.

        Raises:
            PathRefused: see :meth:`locate` and :meth:`ConfinedTree.open_regular`.
        """
        place = self.locate(text, cwd=cwd)
        file = place.tree.open_regular(
            place.parts, follow_links=follow_links, allowed=self._denied.check
        )
        return Place(place.tree, file.parts, place.is_writable), file

    def open_folder(self, text: str | os.PathLike[str], *, cwd: Parts = ()) -> tuple[Place, int]:
        """Open a folder for listing; links that stay inside are followed. The caller closes it.

        Raises:
            PathRefused: see :meth:`locate` and :meth:`ConfinedTree.open_folder`.
        """
        place = self.locate(text, cwd=cwd)
        fd, parts = place.tree.open_folder(place.parts, follow_links=True)
        try:
            self._denied.check(parts)
        except BaseException:
            os.close(fd)
            raise
        return Place(place.tree, parts, place.is_writable), fd

    @property
    def is_denied(self) -> Callable[[Parts], bool] | None:
        """Whether a path is denied, for walks; ``None`` when nothing is."""
        return self._denied.covers if self._denied.patterns else None


def check_workspace(path: str | os.PathLike[str]) -> Path:
    """The path without links of a folder that may be a workspace.

    Raises:
        InvalidWorkspace: it does not exist, is no folder, is ``/``, the home folder, a system
            folder or holds one of them, overlaps the state folder, belongs to somebody else, or
            others could put something else in its place.
    """
    resolved = _resolved(Path(path))
    _check_location(resolved)
    _check_owners(resolved)
    return resolved


def _resolved(path: Path) -> Path:
    try:
        resolved = path.absolute().resolve(strict=True)
        if not stat.S_ISDIR(resolved.stat().st_mode):
            raise InvalidWorkspace(f"{shown(str(path))!r} is no folder.")
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidWorkspace(f"The folder {shown(str(path))!r} does not exist.") from None
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidWorkspace(
            f"The folder {shown(str(path))!r} cannot be used: {type(error).__name__}.",
            operator_detail=str(error),
        ) from error
    return resolved


def _check_location(place: Path) -> None:
    def refuse(reason: str) -> InvalidWorkspace:
        return InvalidWorkspace(f"{shown(str(place))!r} may not be a workspace: {reason}")

    if place == Path("/"):
        raise refuse("it is the root of the file system.")
    for folder in _SYSTEM_FOLDERS:
        for spelling in {folder, Path(os.path.realpath(folder))}:
            if place.is_relative_to(spelling):
                raise refuse(f"it is in the system folder {spelling}.")
            if spelling.is_relative_to(place):
                raise refuse(f"it holds the system folder {spelling}.")
    if place in _SHARED_FOLDERS:
        raise refuse("it is shared by all users.")
    homes = {Path(os.path.realpath(home)) for home in (os.path.expanduser("~"),) if home != "~"}
    if any(home.is_relative_to(place) for home in homes if home != Path("/")):
        raise refuse("it is, or holds, your home folder. Choose a project folder in it.")
    state = state_dir()
    if place.is_relative_to(state) or state.is_relative_to(place):
        raise refuse("it overlaps the folder in which held changes and journals are kept.")


def _check_owners(place: Path) -> None:
    client = os.geteuid()
    owner = place.stat().st_uid
    if client not in (0, owner):
        raise InvalidWorkspace(
            f"{shown(str(place))!r} belongs to another user (UID {owner}, yours is {client})."
        )
    for parent in place.parents:
        info = parent.lstat()
        if info.st_uid not in (0, client, owner):
            reason = f"belongs to another user (UID {info.st_uid})"
        elif info.st_mode & stat.S_IWOTH and not info.st_mode & stat.S_ISVTX:
            reason = "can be written to by everybody"
        else:
            continue
        raise InvalidWorkspace(
            f"{shown(str(place))!r} may not be a workspace: its parent {shown(str(parent))!r} "
            f"{reason}, so that somebody else could put another folder in its place."
        )


def _open_tree(path: Path, *, is_workspace: bool, use_openat2: bool | None) -> ConfinedTree:
    try:
        fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise InvalidWorkspace(
            f"The folder {shown(str(path))!r} cannot be opened: {os.strerror(error.errno or 0)}.",
        ) from error
    roots = (os.fsencode(path), MOUNT_NAME) if is_workspace else (os.fsencode(path),)

    def spelled(target: bytes) -> Parts | None:
        for root in roots:
            if target == root or target.startswith(root.rstrip(b"/") + b"/"):
                rest = target[len(root) :]
                return tuple(name for name in rest.split(b"/") if name not in (b"", b"."))
        return None

    return ConfinedTree.over(fd, text=str(path), spelled=spelled, use_openat2=use_openat2)
