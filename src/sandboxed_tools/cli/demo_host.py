"""The host under watch: bait that an attack would want, and proof that nothing took it."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from sandboxed_tools.workspace.remove import remove_tree

__all__ = ["Bait", "HostReport", "set_bait"]

SECRET_VARIABLE = "DEMO_API_KEY"

PROJECT = {
    "README.md": "# A small project\n",
    "src/app.py": "print('hello')\n",
    "src/settings.py": "DEBUG = False\n",
    "data/customers.csv": "name,city\nAda,London\n",
    "run.sh": "#!/bin/sh\nexec python3 src/app.py\n",
}

Entry = tuple[int, int, int, int, str]
"""Mode, owner, group, time of change in nanoseconds, and a digest of the content or link."""


@dataclass(frozen=True, slots=True)
class HostReport:
    """What became of the host: all of it empty or zero when nothing did."""

    files: int
    changed: tuple[str, ...]
    connections: int
    daemons: tuple[int, ...]
    memory_growth_bytes: int

    @property
    def is_untouched(self) -> bool:
        return not (self.changed or self.connections or self.daemons)


class Bait:
    """Files, a secret and a listening port, laid out for the attacks, and what became of them.

    ``workspace`` is the folder that the attacks work on; ``canary`` is a file outside it, which
    every user of the host may read; ``port`` answers at every address of the host.
    """

    def __init__(self, root: Path, *, script: Path) -> None:
        self.root = root
        self.token = secrets.token_hex(16)
        self.workspace = root / "project"
        self.canary = root / f"customers-{secrets.token_hex(4)}.db"
        self._lay_out(script)
        self._listener = socket.create_server(("", 0))
        self.port: int = self._listener.getsockname()[1]
        self._connections = 0
        self._memory_bytes = psutil.Process().memory_info().rss
        self._before = _entries(root)
        threading.Thread(target=self._count, name="demo-bait", daemon=True).start()

    def _lay_out(self, script: Path) -> None:
        for name, content in PROJECT.items():
            path = self.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        (self.workspace / "data" / "customers.csv").chmod(0o600)
        (self.workspace / "untrusted.sh").write_bytes(script.read_bytes())
        self.canary.write_text(self.token, encoding="utf-8")
        self.canary.chmod(0o644)
        (self.workspace / "planted-link").symlink_to(self.canary)

    def _count(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections += 1
            connection.close()

    def close(self) -> None:
        # shutdown wakes the thread that waits in accept; close alone does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def is_served(self) -> bool:
        """Whether the bait works at all: the port answers and the secret is there to be stolen."""
        before = self._connections
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.recv(1)
        answered = self._connections == before + 1
        self._connections = before
        return answered and os.environ.get(SECRET_VARIABLE) == self.token

    def report(self) -> HostReport:
        now = _entries(self.root)
        names = sorted(self._before.keys() | now.keys())
        return HostReport(
            files=len(self._before),
            changed=tuple(name for name in names if self._before.get(name) != now.get(name)),
            connections=self._connections,
            daemons=tuple(self._daemons()),
            memory_growth_bytes=psutil.Process().memory_info().rss - self._memory_bytes,
        )

    def _daemons(self) -> Iterator[int]:
        # A local engine's containers are ordinary processes of this host, names included.
        name = f"left-behind-{self.port}"
        for process in psutil.process_iter(["cmdline"]):
            if any(name in word for word in process.info["cmdline"] or ()):
                yield process.pid


def _entries(root: Path) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            path = Path(folder, name)
            info = path.lstat()
            content = b""
            if stat.S_ISLNK(info.st_mode):
                content = os.fsencode(path.readlink())
            elif stat.S_ISREG(info.st_mode):
                content = path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            found[str(path.relative_to(root))] = (
                info.st_mode,
                info.st_uid,
                info.st_gid,
                info.st_mtime_ns,
                digest,
            )
    return found


@contextmanager
def set_bait(script: Path) -> Iterator[Bait]:
    """Lay out the bait in a temporary folder, and take it away again."""
    root = Path(tempfile.mkdtemp(prefix="sandboxed-tools-demo-"))
    try:
        # The container's user is not ours and must reach the project below.
        root.chmod(0o711)
        bait = Bait(root, script=script)
        os.environ[SECRET_VARIABLE] = bait.token
        try:
            yield bait
        finally:
            del os.environ[SECRET_VARIABLE]
            bait.close()
    finally:
        remove_tree(root)
