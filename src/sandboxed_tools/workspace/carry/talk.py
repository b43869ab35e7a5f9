"""Talking with the program that runs beside a carried tree (:mod:`.inside`)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sandboxed_tools.errors import EngineFault, SandboxUnavailable
from sandboxed_tools.tool.carrier import Helper, TreeVolume
from sandboxed_tools.tool.foreign_text import for_terminal
from sandboxed_tools.tool.mounts import ContainerUser, ViewUsage
from sandboxed_tools.workspace.carry.inside import CHANGES, READY, USAGE
from sandboxed_tools.workspace.carry.pack import pack
from sandboxed_tools.workspace.carry.program import program
from sandboxed_tools.workspace.carry.stream import BadStream, Reader, Writer
from sandboxed_tools.workspace.carry.unpack import Budget, unpack
from sandboxed_tools.workspace.open_view import is_reserve_touched

__all__ = ["TreeWatcher", "fill"]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CLOSE_WAIT_S: Final = 5.0


def fill(
    volume: TreeVolume,
    copy: Path,
    *,
    user: ContainerUser,
    lifetime_s: float,
    is_wanted: Callable[[], bool],
) -> None:
    """Send what is in the folder ``copy``, so that it belongs to ``user`` there. Blocking.

    Raises:
        SandboxUnavailable: the engine failed, or the tree is not wanted any more.
        OSError: something cannot be read.
    """
    helper = volume.helper(writable=True)

    def send(data: bytes) -> None:
        if not is_wanted():
            raise SandboxUnavailable("the call was cancelled while its workspace was sent")
        helper.send(data)

    try:
        helper.send(
            program(
                job="fill",
                tree=helper.tree,
                uid=user.uid,
                gid=user.gid,
                lifetime_s=int(lifetime_s),
            )
        )
        fd = os.open(copy, _FOLDER)
        try:
            with _talk("take the workspace"):
                _send_tree(fd, send, Reader(helper.receive))
        finally:
            os.close(fd)
    finally:
        helper.close()


def _send_tree(fd: int, send: Callable[[bytes], None], reader: Reader) -> None:
    try:
        pack(fd, Writer(send), force=True)
    except EngineFault:
        # It ends when it cannot go on, and has said why: that is the better word.
        _expect(reader, READY)
        raise
    _expect(reader, READY)


@dataclass(slots=True)
class TreeWatcher:
    """A helper that looked at the tree before the call, and answers questions about it since.

    ``held_bytes`` and ``entries`` are what the tree came to then. Safe to share by threads.
    """

    helper: Helper
    reader: Reader
    entries: int
    held_bytes: int
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def begin(cls, volume: TreeVolume, *, most_entries: int, lifetime_s: float) -> TreeWatcher:
        """Start it, and wait until it has seen everything. ``most_entries`` bounds its counting.

        Raises:
            SandboxUnavailable: the engine failed.
        """
        helper = volume.helper(writable=False)
        try:
            helper.send(
                program(
                    job="watch",
                    tree=helper.tree,
                    most_entries=most_entries,
                    lifetime_s=int(lifetime_s),
                )
            )
            reader = Reader(helper.receive)
            with _talk("look at the workspace"):
                _expect(reader, READY)
                return cls(helper, reader, reader.number(), reader.number())
        except BaseException:
            helper.close()
            raise

    def usage(self) -> ViewUsage:
        """What the tree holds more than before. Blocking, O(tree) on the engine.

        Raises:
            SandboxUnavailable: the engine failed.
        """
        with self._lock, _talk("measure the workspace"):
            self.helper.send(USAGE)
            _expect(self.reader, USAGE)
            entries, held_bytes = self.reader.number(), self.reader.number()
            total_bytes, free_bytes = self.reader.number(), self.reader.number()
        return ViewUsage(
            changed_bytes=max(0, held_bytes - self.held_bytes),
            entries=max(0, entries - self.entries),
            is_disk_low=is_reserve_touched(total_bytes=total_bytes, free_bytes=free_bytes),
        )

    def changes(
        self,
        copy_fd: int,
        *,
        budget: Budget,
        owner: tuple[int, int] | None,
        check: Callable[[], None],
    ) -> None:
        """Change the copy as the tree was changed; nobody may be at the tree. Blocking.

        Raises:
            SandboxUnavailable: the engine failed, or what it says cannot be.
            OverBudget, OSError, TreeMoved: from :func:`.unpack.unpack`.
        """
        with self._lock, _talk("say what was changed"):
            self.helper.send(CHANGES)
            unpack(self.reader, copy_fd, budget=budget, owner=owner, check=check)

    def close(self) -> None:
        """End it; safe to call more than once."""
        # Somebody may be waiting for an answer that nobody needs any more.
        is_locked = self._lock.acquire(timeout=_CLOSE_WAIT_S)
        try:
            self.helper.close()
        finally:
            if is_locked:
                self._lock.release()


def _expect(reader: Reader, answer: bytes) -> None:
    if reader.kind() != answer:
        raise BadStream("an answer to another question")


@contextmanager
def _talk(purpose: str) -> Iterator[None]:
    try:
        yield
    except BadStream as error:
        raise EngineFault(
            f"the helper on the engine could not {purpose}: see 'sandboxed-tools doctor'",
            operator_detail=for_terminal(str(error), one_line=True),
        ) from error
