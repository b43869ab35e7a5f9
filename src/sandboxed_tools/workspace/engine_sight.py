"""What of this machine the engine can see: our files, and the mounts that we make."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from threading import Lock

from sandboxed_tools.tool.state import state_dir
from sandboxed_tools.workspace.idmap import IdMap, mount_folder
from sandboxed_tools.workspace.view_folder import ViewFolder

__all__ = ["EngineSees", "EngineSight"]

EngineSees = Callable[[str], bool]
"""Whether the engine finds this path on its own file system, our mounts included."""


class EngineSight:
    """Asks the engine once, by paths that nobody can know beforehand. Safe to share by threads.

    Without a question to ask (``engine_sees=None``), the engine is taken to see everything. A
    remote engine, or one in a virtual machine, has other files than we; one with a mount namespace
    of its own may have our files and not our mounts (mount_namespaces(7)).
    """

    def __init__(self, engine_sees: EngineSees | None) -> None:
        self._ask = engine_sees
        self._lock = Lock()
        self._files: bool | None = None
        self._mounts: bool | None = None

    def of_files(self) -> bool:
        """Whether the engine finds a folder that was just made below the state folder."""
        if self._ask is None:
            return True
        with self._lock:
            if self._files is None:
                folder = ViewFolder.create(state_dir())
                try:
                    self._files = self._ask(str(folder.path))
                finally:
                    folder.remove()
            return self._files

    def of_mounts(self) -> bool:
        """Whether a mount made here appears to the engine. Needs CAP_SYS_ADMIN.

        Raises:
            OSError: no mount can be made here.
        """
        if self._ask is None:
            return True
        with self._lock:
            if self._mounts is None:
                folder = ViewFolder.create(state_dir())
                try:
                    self._mounts = self._ask(_mark_behind_a_mount(folder))
                finally:
                    folder.remove()
            return self._mounts


def _mark_behind_a_mount(folder: ViewFolder) -> str:
    """The path of a file that exists only where our mounts are seen."""
    mark = secrets.token_hex(8)
    folder.empty.mkdir(mode=0o700)
    (folder.empty / mark).touch(mode=0o600)
    folder.lower.mkdir(mode=0o700)
    fd = os.open(folder.empty, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        mount_folder(fd, folder.lower, ids=IdMap(0, 0, 0, 0))
    finally:
        os.close(fd)
    return str(folder.lower / mark)
