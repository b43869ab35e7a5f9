"""A scratch workspace that knows what has changed in it, by looking at every file."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Difference", "Scratch"]


@dataclass(frozen=True, slots=True)
class Difference:
    """Paths below the workspace that are not as they were, each list sorted."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


class Scratch(os.PathLike[str]):
    """A folder of a test. What the test itself writes through it counts as being there before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._before = self._snapshot()

    def __fspath__(self) -> str:
        return str(self.path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def write(self, files: Mapping[str, str | bytes]) -> None:
        """Write files, with their folders.

        Raises:
            ValueError: a name leads out of the workspace.
        """
        for name, content in files.items():
            if os.path.isabs(name) or ".." in Path(name).parts:
                raise ValueError(f"{name!r} is not below the workspace")
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)
        self.remember()

    def remember(self) -> None:
        """Compare with the present state from now on."""
        self._before = self._snapshot()

    def difference(self) -> Difference:
        """What is not as it was: kind, mode, owner, link target, links and content count."""
        before, after = self._before, self._snapshot()
        return Difference(
            added=tuple(sorted(after.keys() - before.keys())),
            changed=tuple(
                sorted(name for name in after.keys() & before.keys() if after[name] != before[name])
            ),
            removed=tuple(sorted(before.keys() - after.keys())),
        )

    def _snapshot(self) -> dict[str, tuple[object, ...]]:
        found: dict[str, tuple[object, ...]] = {".": _facts(str(self.path))}
        # os.walk keeps its own stack: trees of hostile commands may be deeper than Python's.
        for folder, folders, files in os.walk(self.path):
            for name in (*folders, *files):
                path = os.path.join(folder, name)
                found[os.path.relpath(path, self.path)] = _facts(path)
        return found


def _facts(path: str) -> tuple[object, ...]:
    info = os.lstat(path)
    facts: tuple[object, ...] = (info.st_mode, info.st_uid, info.st_gid)
    if stat.S_ISLNK(info.st_mode):
        return (*facts, os.readlink(path))
    if not stat.S_ISREG(info.st_mode):
        return facts
    # A FIFO that takes the file's place must not hold the test up.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    return (*facts, info.st_nlink, info.st_size, digest)
