"""The written plan of an apply: its steps, and what must be known to take them back."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sandboxed_tools.workspace.descent import Descent
from sandboxed_tools.workspace.layers import confined
from sandboxed_tools.workspace.steps import Step

__all__ = ["Plan", "folder_times", "restore_times"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is being done.

    Attributes:
        steps: in the order in which they are taken.
        times: access and modification times of the folders that they touch, from before.
        depot: whether the entries pass through a depot in the workspace, on its file system.
        is_filling: the depot is still being filled, and no step has been taken.
    """

    steps: tuple[Step, ...] = ()
    times: tuple[tuple[bytes, int, int], ...] = ()
    depot: bool = False
    is_filling: bool = False

    def write(self, path: Path) -> None:
        """Replace the plan at ``path``, whole or not at all, once it is synced."""
        data = {
            "steps": [step.to_json() for step in self.steps],
            "times": [[os.fsdecode(name), *times] for name, *times in self.times],
            "depot": self.depot,
            "is_filling": self.is_filling,
        }
        draft = path.with_name(f".{path.name}")
        draft.write_text(json.dumps(data), encoding="ascii")
        os.rename(draft, path)

    @classmethod
    def read(cls, path: Path) -> Plan | None:
        """The plan at ``path``; ``None`` for none, or one that never reached the disk."""
        try:
            data = json.loads(path.read_text(encoding="ascii"))
            return cls(
                steps=tuple(Step.from_json(item) for item in data["steps"]),
                times=tuple((os.fsencode(name), int(a), int(m)) for name, a, m in data["times"]),
                depot=bool(data["depot"]),
                is_filling=bool(data["is_filling"]),
            )
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None


def folder_times(steps: tuple[Step, ...], workspace_fd: int) -> tuple[tuple[bytes, int, int], ...]:
    """The times of the workspace and of every folder of it that these steps touch."""
    times: dict[bytes, tuple[int, int]] = {}
    with Descent(confined(workspace_fd)) as host:
        for path in (b"", *(step.folder for step in steps)):
            if path not in times:
                # One that cannot be opened now stops its step later.
                with suppress(OSError):
                    info = os.fstat(host.at(path))
                    times[path] = (info.st_atime_ns, info.st_mtime_ns)
    return tuple((path, *pair) for path, pair in times.items())


def restore_times(times: tuple[tuple[bytes, int, int], ...], workspace_fd: int) -> None:
    """Give folders their times back, as far as they are still there."""
    with Descent(confined(workspace_fd)) as host:
        for path, accessed_ns, modified_ns in times:
            with suppress(OSError):
                os.utime(host.at(path), ns=(accessed_ns, modified_ns))
