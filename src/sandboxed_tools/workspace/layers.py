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
from typing import Final, NamedTuple, Self

from sandboxed_tools.workspace.confined import ConfinedTree
from sandboxed_tools.workspace.descent import Descent
from sandboxed_tools.workspace.spelling import Parts, shared_length

__all__ = ["Found", "Layer", "LowerTree", "confined", "is_opaque", "is_whiteout", "own_marks"]

_GONE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV)


def is_whiteout(info: os.stat_result) -> bool:
    """Whether an entry of an upper folder says that the name is deleted."""
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == 0


def is_opaque(folder_fd: int, name: bytes | None = None) -> bool:
    """Whether a folder, or the one that it holds under ``name``, hides what lower layers hold.

    Code inside cannot set the attribute: ``trusted.*`` takes CAP_SYS_ADMIN, and with ``userxattr``
    the overlay keeps ``user.overlay.*`` for itself. Without that option ``user.overlay.*`` is an
    attribute like any other, which anybody may set, so only the one that our overlays use counts.
    """
    mark = f"{own_marks()}opaque"
    with contextlib.suppress(OSError):
        if name is None:
            return os.getxattr(folder_fd, mark) == b"y"
        # There is no call that takes a name in an open folder.
        place = b"/proc/self/fd/%d/%b" % (folder_fd, name)
        return os.getxattr(place, mark, follow_symlinks=False) == b"y"
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


class Found(NamedTuple):
    """An entry as the layers show it; ``dir_fd`` holds it until the next lookup."""

    info: os.stat_result
    dir_fd: int
    name: bytes
    held: str | None


class LowerTree:
    """The merged lower layers, topmost first. Used in a ``with`` block; not for several threads."""

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self.layers = layers
        self._folders = tuple(
            (layer, _PlainFolders(layer.fd) if layer.held is None else _HeldFolders(layer.fd))
            for layer in layers
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for _, folders in self._folders:
            folders.descent.close()

    def find(self, parts: Parts) -> Found | None:
        """What the layers show at a path; ``None`` for nothing, or nothing that can be reached."""
        above, name = parts[:-1], parts[-1]
        for layer, folders in self._folders:
            folder, hides = folders.at(above)
            if folder is not None:
                try:
                    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
                except FileNotFoundError:
                    pass
                else:
                    if layer.held is not None and is_whiteout(info):
                        return None
                    return Found(info, folder, name, layer.held)
            if hides:
                return None
        return None

    def has_folder(self, parts: Parts) -> bool:
        """Whether any layer has a folder at a path: cheap beside :meth:`find` of what is in it."""
        return any(folders.at(parts)[0] is not None for _, folders in self._folders)

    def names(self, parts: Parts) -> list[bytes]:
        """What the layers show in a folder, sorted."""
        shown: set[bytes] = set()
        hidden: set[bytes] = set()
        for layer, folders in self._folders:
            folder, hides = folders.at(parts)
            if folder is not None:
                for name, whiteout in _entries(folder, held=layer.held is not None):
                    if name not in hidden:
                        (hidden if whiteout else shown).add(name)
                        hidden.add(name)
                hides = hides or (layer.held is not None and is_opaque(folder))
            if hides:
                break
        return sorted(shown)


class _PlainFolders:
    """The folders of the workspace: nothing is below them."""

    def __init__(self, top_fd: int) -> None:
        self.descent = Descent(confined(top_fd))
        self._parts: Parts | None = None
        self._path = b""
        self._fd: int | None = None

    def at(self, parts: Parts) -> tuple[int | None, bool]:
        """The folder at a path, open until the next one; whether lower layers are hidden there."""
        known = self._parts
        if known is None or parts[: len(known)] != known:
            path = b"/".join(parts)
        elif self._fd is None or len(parts) == len(known):
            return self._fd, True
        else:
            path = _joined(self._path, parts[len(known) :])
        fd = None
        try:
            fd = self.descent.at(path)
        except OSError as error:
            if error.errno not in _GONE:
                raise
        self._parts, self._path, self._fd = parts, path, fd
        return fd, True


def _joined(path: bytes, below: Parts) -> bytes:
    return b"/".join((path, *below) if path else below)


class _HeldFolders:
    """The folders of a held set, entered name by name, to see whether any on the way is opaque."""

    def __init__(self, top_fd: int) -> None:
        self.descent = Descent(confined(top_fd))
        self._path = b""
        # Whether lower layers are hidden, after each name of the path.
        self._hides: list[bool] = []
        self._missing = False

    def at(self, parts: Parts) -> tuple[int | None, bool]:
        """As :meth:`_PlainFolders.at`."""
        path = b"/".join(parts)
        length = shared_length(self._path, path) if self._path and path else 0
        shared = path.count(b"/", 0, length) + (length > len(path))
        if self._missing and shared == len(self._hides):
            return None, self._hides[-1]
        del self._hides[shared:]
        self._path, self._missing = path[: max(0, length - 1)], False
        for name in parts[shared:]:
            here = _joined(self._path, (name,))
            hides = bool(self._hides) and self._hides[-1]
            try:
                hides = is_opaque(self.descent.at(here)) or hides
            except OSError as error:
                if error.errno not in _GONE:
                    raise
                hides = hides or error.errno != errno.ENOENT
                self._missing = True
            self._path = here
            self._hides.append(hides)
            if self._missing:
                return None, hides
        return self.descent.at(path), bool(self._hides) and self._hides[-1]


def _entries(folder_fd: int, *, held: bool) -> Iterator[tuple[bytes, bool]]:
    """The names in a folder, and which of them are whiteouts."""
    with os.scandir(folder_fd) as entries:
        for entry in entries:
            whiteout = held and is_whiteout(entry.stat(follow_symlinks=False))
            yield os.fsencode(entry.name), whiteout
