"""What an overlay shows below its upper folder: held changes over the workspace, merged by lookup.

The rules are the kernel's (Documentation/filesystems/overlayfs.rst): a character device 0/0 is a
whiteout and hides what is below it; a folder with the attribute ``opaque`` hides what is below that
folder; anything but a folder hides everything below its name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from sandboxed_tools.workspace.confined import ConfinedTree
from sandboxed_tools.workspace.spelling import Parts

__all__ = ["Found", "Layer", "LowerTree", "confined", "is_opaque", "is_whiteout", "own_marks"]

_GONE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV)


def is_whiteout(info: os.stat_result) -> bool:
    """Whether an entry of an upper folder says that the name is deleted."""
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == 0


def is_opaque(folder_fd: int) -> bool:
    """Whether a folder hides what lower layers hold under its name.

    Code inside cannot set the attribute: ``trusted.*`` takes CAP_SYS_ADMIN, and with ``userxattr``
    the overlay keeps ``user.overlay.*`` for itself. Without that option ``user.overlay.*`` is an
    attribute like any other, which anybody may set, so only the one that our overlays use counts.
    """
    with contextlib.suppress(OSError):
        return os.getxattr(folder_fd, f"{own_marks()}opaque") == b"y"
    return False


def own_marks() -> str:
    """What the names of the attributes begin with by which our overlays remember things."""
    return "trusted.overlay." if os.geteuid() == 0 else "user.overlay."


def confined(folder_fd: int) -> ConfinedTree:
    """Access below a folder that follows no links at all."""
    return ConfinedTree.over(folder_fd, text="", spelled=lambda _: None)


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: its open folder, and the held set that it is, ``None`` for the workspace."""

    fd: int
    held: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """An entry as the layers show it; ``dir_fd`` holds it until the next lookup."""

    info: os.stat_result
    dir_fd: int
    name: bytes
    held: str | None


class LowerTree:
    """The merged lower layers, topmost first. Used in a ``with`` block; not for several threads."""

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self.layers = layers
        self._trees = [confined(layer.fd) for layer in layers]
        self._folders: dict[int, tuple[Parts, int | None, bool]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for _, fd, _ in self._folders.values():
            if fd is not None:
                os.close(fd)
        self._folders.clear()

    def find(self, parts: Parts) -> Found | None:
        """What the layers show at a path; ``None`` for nothing, or nothing that can be reached."""
        for index, layer in enumerate(self.layers):
            folder, hides = self._folder(index, parts[:-1])
            if folder is not None:
                try:
                    info = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
                except FileNotFoundError:
                    pass
                else:
                    if layer.held is not None and is_whiteout(info):
                        return None
                    return Found(info, folder, parts[-1], layer.held)
            if hides:
                return None
        return None

    def has_folder(self, parts: Parts) -> bool:
        """Whether any layer has a folder at a path: cheap beside :meth:`find` of what is in it."""
        return any(self._folder(index, parts)[0] is not None for index in range(len(self.layers)))

    def names(self, parts: Parts) -> list[bytes]:
        """What the layers show in a folder, sorted."""
        shown: set[bytes] = set()
        hidden: set[bytes] = set()
        for index, layer in enumerate(self.layers):
            folder, hides = self._folder(index, parts)
            if folder is not None:
                for name, whiteout in _entries(folder, held=layer.held is not None):
                    if name not in hidden:
                        (hidden if whiteout else shown).add(name)
                        hidden.add(name)
                hides = hides or (layer.held is not None and is_opaque(folder))
            if hides:
                break
        return sorted(shown)

    def _folder(self, index: int, parts: Parts) -> tuple[int | None, bool]:
        """A layer's folder at a path, open, and whether lower layers are hidden from there."""
        known, last, hides = self._folders.get(index, ((), None, False))
        if index in self._folders and known == parts:
            return last, hides
        # A walk goes from a folder into the ones in it: opened from there, not from the top, else
        # the cost of a deep tree grows with the square of its depth.
        is_below = index in self._folders and parts[: len(known)] == known
        if is_below and last is None:
            self._folders[index] = (parts, None, hides)
            return None, hides
        tree = self._trees[index] if not is_below or last is None else confined(last)
        rest = parts[len(known) :] if is_below else parts
        try:
            if self.layers[index].held is None:
                found = _open_plain(tree, rest), True
            else:
                found = _open_layered(tree, rest, opaque=is_below and hides)
        finally:
            self._folders.pop(index, None)
            if last is not None:
                os.close(last)
        self._folders[index] = (parts, *found)
        return found


def _open_plain(tree: ConfinedTree, parts: Parts) -> int | None:
    try:
        return tree.open_listing(parts)
    except OSError as error:
        if error.errno not in _GONE:
            raise
        return None


def _open_layered(tree: ConfinedTree, parts: Parts, *, opaque: bool) -> tuple[int | None, bool]:
    """Open a folder of a held layer name by name, and see whether any on the way is opaque."""
    fd = tree.open_listing(())
    for name in parts:
        try:
            child = confined(fd).open_listing((name,))
        except OSError as error:
            if error.errno not in _GONE:
                raise
            return None, opaque or error.errno != errno.ENOENT
        finally:
            os.close(fd)
        fd, opaque = child, opaque or is_opaque(child)
    return fd, opaque


def _entries(folder_fd: int, *, held: bool) -> Iterator[tuple[bytes, bool]]:
    """The names in a folder, and which of them are whiteouts."""
    with os.scandir(folder_fd) as entries:
        for entry in entries:
            whiteout = held and is_whiteout(entry.stat(follow_symlinks=False))
            yield os.fsencode(entry.name), whiteout
