"""The whole output of a call, into files beside the kept head and tail."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from sandboxed_tools.tool.result import Stream

__all__ = ["SpillFiles"]


class SpillFiles:
    """``stdout`` and ``stderr`` in ``folder``, which must exist; their size is bounded by the
    call's ``output_total_bytes``.

    Raises:
        OSError: the files are there already, or cannot be made. Nothing is followed or replaced.
    """

    def __init__(self, folder: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with contextlib.ExitStack() as undo:
            self._fds: dict[Stream, int] = {}
            for name in ("stdout", "stderr"):
                self._fds[name] = os.open(folder / name, flags, 0o600)
                undo.callback(os.close, self._fds[name])
            undo.pop_all()

    def write(self, stream: Stream, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._fds[stream], left) :]

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.popitem()[1])
