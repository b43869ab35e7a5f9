"""The single steps of applying a change set, each of which can be asked, done and taken back.

A step knows by inodes whether it has been done. So after a crash at any point, the steps that were
done can be told from the others, and the whole finished or taken back, without a record of each.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self

from sandboxed_tools.workspace.change import Change
from sandboxed_tools.workspace.change_paths import PlacedChange, in_path_order, placed
from sandboxed_tools.workspace.descent import Descent
from sandboxed_tools.workspace.layers import confined, is_whiteout
from sandboxed_tools.workspace.renames import exchange, move, repair
from sandboxed_tools.workspace.spelling import Parts

__all__ = [
    "Blocked",
    "Folders",
    "Identity",
    "OnStep",
    "Present",
    "Step",
    "StepKind",
    "steps_for",
]

StepKind = Literal["add", "swap", "remove", "mode", "made"]
"""``made``: a folder that is there since another entry came, and goes with it when it is empty."""

Identity = tuple[int, int]
"""An entry's inode and modification time: an inode alone is given to the next file that is made."""


class Present(NamedTuple):
    """What the workspace holds at a path."""

    identity: Identity
    is_folder: bool

    @classmethod
    def of(cls, info: os.stat_result) -> Present:
        return cls(_identity_of(info), stat.S_ISDIR(info.st_mode))


OnStep = Callable[[], None]
"""Called before each single change of the disk; tests stop the process there."""

_ORDER: Final = {"add": 0, "swap": 1, "remove": 2, "mode": 3}


class Blocked(Exception):
    """A step finds neither the state before it nor the one after it: somebody was here."""


@dataclass(frozen=True, slots=True)
class Step:
    """One entry's way into the workspace; with a folder goes everything in it.

    ``staged`` and ``present`` are the new entry and the one that is there.
    """

    kind: StepKind
    path: bytes
    staged: Identity | None = None
    present: Identity | None = None
    mode_before: int = 0
    mode_after: int = 0

    @property
    def parts(self) -> Parts:
        return tuple(self.path.split(b"/"))

    @property
    def folder(self) -> bytes:
        """The path of the folder that holds the entry; empty for the top."""
        return self.path.rpartition(b"/")[0]

    @property
    def name(self) -> bytes:
        return self.path.rpartition(b"/")[2]

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "path": os.fsdecode(self.path),
            "staged": self.staged,
            "present": self.present,
            "mode_before": self.mode_before,
            "mode_after": self.mode_after,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Step:
        return cls(
            kind=data["kind"],
            path=os.fsencode(data["path"]),
            staged=_identity_from_json(data["staged"]),
            present=_identity_from_json(data["present"]),
            mode_before=int(data["mode_before"]),
            mode_after=int(data["mode_after"]),
        )

    def do(self, folders: Folders, on_step: OnStep) -> None:
        """Take the step, or see that it has been taken.

        Raises:
            Blocked: the workspace holds something else than what the step was made for.
            OSError: the file system refuses.
        """
        if self.kind == "made":
            return
        if self.kind == "mode":
            self._set_mode(folders.host(self.folder), self.mode_after, on_step)
            return
        name = self.name
        upper, host = folders.pair(self.folder)
        if self.kind == "swap" and folders.was_cut_off:
            repair(name, upper, host, salt=folders.salt)
        if self.kind == "remove":
            self._take_out(upper, host, on_step)
            return
        staged, present = _identity(upper, name), _identity(host, name)
        if present == self.staged:
            return
        if self.kind == "add" and present is None and staged == self.staged:
            on_step()
            move(name, upper, host)
        elif self.kind == "swap" and (staged, present) == (self.staged, self.present):
            on_step()
            exchange(name, upper, host, salt=folders.salt, between=on_step)
        else:
            raise Blocked(self.path)

    def take_back(self, folders: Folders, on_step: OnStep) -> None:
        """Undo the step, or see that it has not been taken. Raises as :meth:`do`."""
        if self.kind == "made":
            with suppress(Blocked):
                self._unmake(*folders.pair(self.folder), on_step)
            return
        if self.kind == "mode":
            self._set_mode(folders.host(self.folder), self.mode_before, on_step)
            return
        name = self.name
        upper, host = folders.pair(self.folder)
        if self.kind == "swap" and folders.was_cut_off:
            repair(name, upper, host, salt=folders.salt)
        if self.kind == "remove":
            self._put_back(upper, host, on_step)
            return
        staged, present = _identity(upper, name), _identity(host, name)
        if staged == self.staged:
            return
        if self.kind == "add" and present == self.staged and staged is None:
            on_step()
            move(name, host, upper)
        elif self.kind == "swap" and self._is_kept(staged) and present == self.staged:
            on_step()
            exchange(name, upper, host, salt=folders.salt, between=on_step)
        else:
            raise Blocked(self.path)

    def _is_kept(self, entry: Identity | None) -> bool:
        """Whether it is what was replaced, by its inode alone.

        Who has it open goes on writing to it, wherever it lies; and while it exists, no other file
        gets that inode.
        """
        return entry is not None and self.present is not None and entry[0] == self.present[0]

    def _take_out(self, upper: int, host: int, on_step: OnStep) -> None:
        name = self.name
        kept, present = _info(upper, name), _identity(host, name)
        if present is None and kept is not None and self._is_kept(_identity_of(kept)):
            return
        if present != self.present:
            raise Blocked(self.path)
        if kept is not None and is_whiteout(kept):
            on_step()
            os.unlink(name, dir_fd=upper)
        on_step()
        move(name, host, upper)

    def _put_back(self, upper: int, host: int, on_step: OnStep) -> None:
        name = self.name
        kept, present = _identity(upper, name), _identity(host, name)
        if self._is_kept(kept) and present is None:
            on_step()
            move(name, upper, host)
            kept, present = None, kept
        if not self._is_kept(present):
            raise Blocked(self.path)
        if kept is None:
            on_step()
            # An unprivileged process may make this one device (mknod(2), Linux 5.8).
            os.mknod(name, stat.S_IFCHR, 0, dir_fd=upper)

    def _unmake(self, upper: int, host: int, on_step: OnStep) -> None:
        there = _info(host, self.name)
        if there is not None and self._is_kept(_identity_of(there)):
            on_step()
            # Where others have put something, or it cannot go, it stays.
            with suppress(OSError):
                os.rmdir(self.name, dir_fd=host)
        if self.staged is not None:
            # What came back into the one that stands for it has changed its time.
            times = (self.staged[1], self.staged[1])
            os.utime(self.name, ns=times, dir_fd=upper, follow_symlinks=False)

    def _set_mode(self, host: int, mode: int, on_step: OnStep) -> None:
        flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(self.name, flags, dir_fd=host)
        except FileNotFoundError:
            raise Blocked(self.path) from None
        try:
            info = os.fstat(fd)
            now = stat.S_IMODE(info.st_mode)
            if self.present is None or info.st_ino != self.present[0]:
                raise Blocked(self.path)
            if now not in (self.mode_before, self.mode_after):
                raise Blocked(self.path)
            if now != mode:
                on_step()
                os.chmod(f"/proc/self/fd/{fd}", mode)
        finally:
            os.close(fd)


def steps_for(
    changes: tuple[Change, ...],
    *,
    present_at: Callable[[PlacedChange], Present | None],
) -> tuple[Step, ...]:
    """The steps that make these changes, in the order in which they are taken.

    Additions come first, with folders whole, and deletions after everything that may need them;
    modes last, because a folder may lock us out. ``present_at`` tells what the workspace holds in
    the place of a change.
    """
    steps: list[Step] = [*_locked_folders(changes)]
    whole: int | None = None
    for item in placed(changes):
        change, parts = item.change, item.parts
        # Parents come first, and what is in a folder follows it at once.
        if whole is not None and item.shared >= whole:
            continue
        whole = None
        there = present_at(item)
        present = None if there is None else there.identity
        if change.after is None:
            if present is not None:
                steps.append(Step("remove", change.path, present=present))
            continue
        if change.action == "mode" and change.before is not None and present is not None:
            before, after = change.before.mode, change.after.mode
            steps.append(
                Step("mode", change.path, None, present, mode_before=before, mode_after=after)
            )
            continue
        if change.after.kind == "folder":
            if change.before is None and there is not None and there.is_folder:
                # Both sides made it: what is in it comes entry by entry.
                continue
            whole = len(parts)
        kind: StepKind = "add" if present is None else "swap"
        staged = (change.after.inode, change.after.mtime_ns)
        steps.append(Step(kind, change.path, staged, present))
    return tuple(sorted(steps, key=_rank))


def _rank(step: Step) -> tuple[int, int, bytes]:
    # The modes of deep folders first: the one above may lock us out of them.
    depth = -step.path.count(b"/") if step.kind == "mode" else 0
    return _ORDER[step.kind], depth, in_path_order(step.path)


def _locked_folders(changes: tuple[Change, ...]) -> Iterator[Step]:
    """The last word on new folders that lock their owner out: they are kept open until then."""
    for change in changes:
        after = change.after
        if after is None or after.kind != "folder" or change.action == "mode":
            continue
        if after.mode & 0o700 != 0o700:
            identity = (after.inode, after.mtime_ns)
            opened = after.mode | 0o700
            yield Step(
                "mode", change.path, None, identity, mode_before=opened, mode_after=after.mode
            )


class Folders:
    """The same folder of the upper tree and of the workspace, opened in pairs without any link.

    Used in a ``with`` block; a pair stays open until the next one is asked for. ``salt`` is
    something that was not known when the upper tree was filled, see :func:`exchange`. With
    ``was_cut_off``, steps have been taken before, and one of them perhaps only in part.
    """

    def __init__(self, upper_fd: int, workspace_fd: int, *, salt: bytes, was_cut_off: bool) -> None:
        self.salt = salt
        self.was_cut_off = was_cut_off
        self._upper = Descent(confined(upper_fd))
        self._host = Descent(confined(workspace_fd))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._upper.close()
        self._host.close()

    def pair(self, path: bytes) -> tuple[int, int]:
        """Descriptors of the upper tree's and the workspace's folder at a path.

        Raises:
            Blocked: the workspace has a link, something else, or nothing in its place.
        """
        return _folder(self._upper, path), _folder(self._host, path)

    def host(self, path: bytes) -> int:
        """The workspace's folder alone. Raises as :meth:`pair`."""
        return _folder(self._host, path)


def _folder(descent: Descent, path: bytes) -> int:
    try:
        return descent.at(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV):
            raise Blocked(path) from error
        raise


def _info(dir_fd: int, name: bytes) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _identity_of(info: os.stat_result) -> Identity:
    return info.st_ino, info.st_mtime_ns


def _identity(dir_fd: int, name: bytes) -> Identity | None:
    info = _info(dir_fd, name)
    return None if info is None else _identity_of(info)


def _identity_from_json(data: list[int] | None) -> Identity | None:
    return None if data is None else (int(data[0]), int(data[1]))
