"""Opening files below a root, in a tree that hostile code has built and is still changing.

Every access starts at a descriptor of the root and no path is resolved twice: what was checked is
the descriptor that is used. The kernel resolves names with openat2(2) and ``RESOLVE_BENEATH``,
``NO_SYMLINKS``, ``NO_MAGICLINKS`` and ``NO_XDEV``. Where it has no openat2 (before 5.6), or where a
link is to be followed, each name is opened by itself with ``O_NOFOLLOW`` and the text of a link is
spliced in, so that a link which leads outside is a refusal, and one that stays inside tells its
true name. Resolving to a string first, and opening that, loses the race against a swapped folder
(CVE-2026-39861, CVE-2024-28185, CVE-2018-15664).

Mounts below the root are not entered: a container's view of the workspace does not show them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from sandboxed_tools.errors import PathRefused
from sandboxed_tools.workspace.mounts import same_mount
from sandboxed_tools.workspace.openat2 import (
    NO_MAGICLINKS,
    NO_SYMLINKS,
    NO_XDEV,
    RESOLVE_BENEATH,
    openat2,
    openat2_available,
)
from sandboxed_tools.workspace.spelling import Parts, path_text, shown

__all__ = ["ConfinedTree", "OpenFile", "refusal"]

_RESOLVE: Final = RESOLVE_BENEATH | NO_MAGICLINKS | NO_XDEV | NO_SYMLINKS
_FOLDER: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS: Final = 40
_MAX_STEPS: Final = 20_000
_MAX_CHUNK_BYTES: Final = 4000
"""Below PATH_MAX (4096), the longest path of one system call."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A regular file that is open: its descriptor, true names below the root, and first fstat."""

    fd: int
    parts: Parts
    info: os.stat_result

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self.fd)


@dataclass(frozen=True, slots=True)
class ConfinedTree:
    """One root, by descriptor. ``text`` names it in messages only.

    ``spelled`` gives the names below this root for an absolute path inside it, else ``None``: how
    an absolute link that stays inside is recognised. ``use_openat2=False`` takes the way of old
    kernels, with the same answers.
    """

    fd: int
    text: str
    spelled: Callable[[bytes], Parts | None]
    use_openat2: bool

    @classmethod
    def over(
        cls,
        fd: int,
        *,
        text: str,
        spelled: Callable[[bytes], Parts | None],
        use_openat2: bool | None = None,
    ) -> ConfinedTree:
        """A tree over an open folder, with openat2 where it is there."""
        chosen = openat2_available() if use_openat2 is None else use_openat2
        return cls(fd, text, spelled, chosen)

    def open_regular(
        self, parts: Parts, *, follow_links: bool, allowed: Callable[[Parts], None] | None = None
    ) -> OpenFile:
        """Open a regular file for reading, without ever waiting for a lease, a FIFO or a device.

        ``allowed`` is asked about the true names before the descriptor is handed out; it raises to
        refuse.

        Raises:
            PathRefused: ``missing``, ``link``, ``outside``, ``mount``, ``folder``, ``not_regular``,
                ``leased``, ``permission``, ``too_long``, …; see :func:`refusal`.
        """
        try:
            fd, true_parts = self._resolve(parts, os.O_RDONLY | _FILE, follow_links=follow_links)
        except OSError as error:
            raise refusal(error, parts) from error
        try:
            if allowed is not None:
                allowed(true_parts)
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                raise not_regular(info.st_mode, parts)
        except BaseException:
            os.close(fd)
            raise
        return OpenFile(fd, true_parts, info)

    def open_folder(
        self, parts: Parts, *, follow_links: bool = False, for_listing: bool = True
    ) -> tuple[int, Parts]:
        """Open a folder, to list it or to reach what is in it; the caller closes it.

        Raises:
            PathRefused: as :meth:`open_regular`, and ``not_folder``.
        """
        access = os.O_RDONLY if for_listing else os.O_PATH
        try:
            return self._resolve(parts, access | _FOLDER, follow_links=follow_links)
        except OSError as error:
            raise refusal(error, parts) from error

    def open_listing(self, parts: Parts) -> int:
        """Open a folder for listing, without following any link; OSError as it comes."""
        return self._resolve(parts, os.O_RDONLY | _FOLDER, follow_links=False)[0]

    def open_passage(self, parts: Parts) -> int:
        """As :meth:`open_listing`, to go on from there only: a folder may forbid to be listed."""
        return self._resolve(parts, os.O_PATH | _FOLDER, follow_links=False)[0]

    def make_folders(
        self,
        parts: Parts,
        *,
        owner: tuple[int, int] | None = None,
        made: dict[Parts, os.stat_result] | None = None,
    ) -> int:
        """Open a folder for writing in it, making what is missing; the caller closes it.

        Each folder that is made is entered in ``made``.

        Raises:
            PathRefused: a name on the way is a link, a file, or on another mount.
        """
        fd = os.dup(self.fd)
        try:
            for index, name in enumerate(parts):
                try:
                    child = self._step(fd, name, os.O_PATH | _FOLDER)
                except FileNotFoundError:
                    child, is_made = self._make_folder(fd, name, owner)
                    if is_made and made is not None:
                        made[parts[: index + 1]] = os.fstat(child)
                except OSError as error:
                    raise refusal(_told_apart(error, fd, name), parts[: index + 1]) from error
                os.close(fd)
                fd = child
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _make_folder(self, fd: int, name: bytes, owner: tuple[int, int] | None) -> tuple[int, bool]:
        """The folder, open, and whether it was this call that made it."""
        is_made = True
        try:
            os.mkdir(name, 0o755, dir_fd=fd)
        except FileExistsError:
            is_made = False
        except OSError as error:
            raise refusal(error, (name,)) from error
        try:
            child = self._step(fd, name, os.O_PATH | _FOLDER)
        except OSError as error:
            raise refusal(error, (name,)) from error
        if owner is not None and is_made:
            os.chown(f"/proc/self/fd/{child}", *owner)
        return child, is_made

    def _resolve(self, parts: Parts, flags: int, *, follow_links: bool) -> tuple[int, Parts]:
        if not parts:
            return os.open(b".", flags, dir_fd=self.fd), ()
        if self.use_openat2:
            try:
                return self._by_openat2(parts, flags), parts
            except OSError as error:
                # ENOTDIR: O_DIRECTORY on a link; the walk below tells a link from a file.
                if not follow_links or error.errno not in (errno.ELOOP, errno.ENOTDIR):
                    raise
        return self._by_walk(parts, flags, follow_links=follow_links)

    def _by_openat2(self, parts: Parts, flags: int) -> int:
        path = b"/".join(parts)
        if len(path) <= _MAX_CHUNK_BYTES:
            return openat2(self.fd, path, flags, resolve=_RESOLVE)
        fd, opened = self.fd, False
        try:
            *chunks, last = _chunks(parts)
            for chunk in chunks:
                child = openat2(fd, chunk, os.O_PATH | _FOLDER, resolve=_RESOLVE)
                if opened:
                    os.close(fd)
                fd, opened = child, True
            return openat2(fd, last, flags, resolve=_RESOLVE)
        finally:
            if opened:
                os.close(fd)

    def _step(self, fd: int, name: bytes, flags: int) -> int:
        """Open one name in an open folder: no link followed, no mount entered."""
        child = self._passage(fd, name, flags)
        if not self.use_openat2 and not same_mount(self.fd, child):
            os.close(child)
            raise OSError(errno.EXDEV, "is a mount", os.fsdecode(name))
        return child

    def _passage(self, fd: int, name: bytes, flags: int) -> int:
        """As ``_step``, for a folder on the way: a mount has no way back, so the end tells."""
        if self.use_openat2:
            return openat2(fd, name, flags, resolve=_RESOLVE)
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)

    def _by_walk(self, parts: Parts, flags: int, *, follow_links: bool) -> tuple[int, Parts]:
        walk = _Walk(self, parts)
        try:
            while True:
                name = walk.pending.pop()
                if name == b"..":
                    walk.up()
                elif not walk.pending:
                    try:
                        return self._step(walk.fd, name, flags), (*walk.names, name)
                    except OSError as error:
                        walk.splice(name, error, follow_links=follow_links)
                else:
                    try:
                        walk.enter(name, self._passage(walk.fd, name, os.O_PATH | _FOLDER))
                    except OSError as error:
                        walk.splice(name, error, follow_links=follow_links)
                if not walk.pending:
                    return self._step(walk.fd, b".", flags), tuple(walk.names)
        finally:
            os.close(walk.fd)


class _Walk:
    """A resolution under way: the folder reached, its true names, and the names still to come."""

    def __init__(self, tree: ConfinedTree, parts: Parts) -> None:
        self.tree = tree
        self.fd = os.dup(tree.fd)
        self.names: list[bytes] = []
        self.pending = list(reversed(parts))
        self._links = 0
        self._steps = 0

    def enter(self, name: bytes, child: int) -> None:
        self._count()
        os.close(self.fd)
        self.fd = child
        self.names.append(name)

    def up(self) -> None:
        # Never "..": a folder that was moved meanwhile would lead out. Down again from the root.
        if not self.names:
            raise OSError(errno.EXDEV, "leads outside")
        self._restart(self.names[:-1])

    def splice(self, name: bytes, error: OSError, *, follow_links: bool) -> None:
        """Put a link's text in the place of its name; raise ``error`` if it is no link."""
        try:
            target = os.readlink(name, dir_fd=self.fd)
        except OSError:
            raise error from None
        self._links += 1
        if not follow_links or self._links > _MAX_LINKS:
            raise OSError(errno.ELOOP, "is a link", os.fsdecode(name))
        if target.startswith(b"/"):
            inside = self.tree.spelled(target)
            if inside is None:
                raise OSError(errno.EXDEV, "leads outside", os.fsdecode(name))
            self._restart([])
            target = b"/".join(inside)
        names = [part for part in target.split(b"/") if part not in (b"", b".")]
        self.pending.extend(reversed(names))

    def _restart(self, names: list[bytes]) -> None:
        fd = os.dup(self.tree.fd)
        try:
            for name in names:
                self._count()
                child = self.tree._passage(fd, name, os.O_PATH | _FOLDER)
                os.close(fd)
                fd = child
        except BaseException:
            os.close(fd)
            raise
        os.close(self.fd)
        self.fd, self.names = fd, names

    def _count(self) -> None:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise OSError(errno.ELOOP, "leads through too many names")


def _told_apart(error: OSError, fd: int, name: bytes) -> OSError:
    """The kernel says ENOTDIR for a link, too, when a folder was asked for."""
    if error.errno == errno.ENOTDIR:
        with contextlib.suppress(OSError):
            os.readlink(name, dir_fd=fd)
            return OSError(errno.ELOOP, "is a link", os.fsdecode(name))
    return error


def _chunks(parts: Parts) -> list[bytes]:
    path, start, chunks = b"/".join(parts), 0, []
    while len(path) - start > _MAX_CHUNK_BYTES:
        end = path.rindex(b"/", start, start + _MAX_CHUNK_BYTES + 1)
        chunks.append(path[start:end])
        start = end + 1
    return [*chunks, path[start:]]


_KINDS: Final = (
    (stat.S_ISDIR, "is a folder", "folder"),
    (stat.S_ISFIFO, "is a FIFO", "not_regular"),
    (stat.S_ISSOCK, "is a socket", "not_regular"),
    (stat.S_ISCHR, "is a device", "not_regular"),
    (stat.S_ISBLK, "is a device", "not_regular"),
    (stat.S_ISLNK, "is a symbolic link", "link"),
)


def not_regular(mode: int, parts: Parts) -> PathRefused:
    """The refusal of something that is there and is no regular file."""
    for is_kind, what, reason in _KINDS:
        if is_kind(mode):
            return PathRefused(
                f"{shown(path_text(parts))!r} {what}, not a regular file.", reason=reason
            )
    return PathRefused(f"{shown(path_text(parts))!r} is no regular file.", reason="not_regular")


_REFUSALS: Final = {
    errno.ENOENT: ("does not exist.", "missing"),
    errno.ENOTDIR: ("leads through something that is no folder.", "not_folder"),
    errno.ELOOP: ("is, or leads through, a symbolic link, which is not followed here.", "link"),
    errno.EXDEV: ("leaves the workspace through a link or a mount.", "outside"),
    errno.EACCES: ("may not be opened: the file system says permission denied.", "permission"),
    errno.EPERM: ("may not be opened: the file system says not permitted.", "permission"),
    errno.EAGAIN: ("is held by a lease of another process; try again later.", "leased"),
    errno.ENXIO: ("is a socket or a device, not a regular file.", "not_regular"),
    errno.ENODEV: ("is a device, not a regular file.", "not_regular"),
    errno.ENAMETOOLONG: ("has a name that is too long.", "too_long"),
    errno.EROFS: ("is on a read-only file system.", "read_only"),
    errno.ENOSPC: ("cannot be written: the disk is full.", "disk_full"),
    errno.EDQUOT: ("cannot be written: the disk quota is used up.", "disk_full"),
    errno.EISDIR: ("is a folder, not a regular file.", "folder"),
    errno.EEXIST: ("exists already.", "exists"),
}


def refusal(error: OSError, parts: Parts) -> PathRefused:
    """What the kernel answered, in words that a model can act on. ``reason`` is the code."""
    words, reason = _REFUSALS.get(error.errno or 0, ("cannot be opened.", "unreadable"))
    return PathRefused(
        f"{shown(path_text(parts))!r} {words}", reason=reason, operator_detail=str(error)
    )
