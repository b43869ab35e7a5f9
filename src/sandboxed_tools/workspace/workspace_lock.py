"""One decision at a time about a workspace, by threads and by processes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sandboxed_tools.errors import Overloaded
from sandboxed_tools.tool.state import state_dir

__all__ = ["workspace_lock"]

_DEADLINE_S: Final = 30.0


@contextmanager
def workspace_lock(workspace: bytes, *, wait_s: float = _DEADLINE_S) -> Iterator[None]:
    """Keep other applies, undos and recoveries of this workspace out. Blocking.

    The lock is the kernel's (flock(2)), so it goes with its holder however that ends.

    Raises:
        Overloaded: somebody else holds it for over ``wait_s``.
    """
    folder = state_dir() / "locks"
    folder.mkdir(mode=0o700, exist_ok=True)
    name = hashlib.sha256(workspace).hexdigest()[:32]
    fd = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Overloaded(
                        "Another process is applying changes to this workspace; try again.",
                        what="workspace",
                    ) from None
                time.sleep(0.02)
        yield
    finally:
        os.close(fd)
