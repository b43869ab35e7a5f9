"""A carrier without an engine: the helpers are programs on this machine, the volumes folders."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sandboxed_tools.errors import EngineFault
from sandboxed_tools.tool.carrier import HELPER_ARGV
from sandboxed_tools.workspace.remove import remove_tree

FOLDER = os.O_RDONLY | os.O_DIRECTORY


class LocalHelper:
    """The real program in a process; ``twist`` may change what it says."""

    def __init__(self, tree: str, twist: Callable[[bytes], bytes]) -> None:
        self.tree = tree
        self._twist = twist
        self._process = subprocess.Popen(
            [sys.executable, *HELPER_ARGV[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
        )

    def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError) as error:  # ValueError: closed here
            raise EngineFault("the helper ended early") from error

    def receive(self, most: int) -> bytes:
        assert self._process.stdout is not None
        data = os.read(self._process.stdout.fileno(), most)
        if not data:
            assert self._process.stderr is not None
            words = self._process.stderr.read().decode()
            raise EngineFault("the helper ended early", operator_detail=words)
        return self._twist(data)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


@dataclass
class LocalVolume:
    name: str
    twist: Callable[[bytes], bytes]

    def helper(self, *, writable: bool) -> LocalHelper:
        return LocalHelper(self.name, (lambda data: data) if writable else self.twist)

    def close(self) -> None:
        remove_tree(self.name)


@dataclass
class LocalCarrier:
    """``twist`` changes what the helper beside the finished tree says."""

    twist: Callable[[bytes], bytes] = lambda data: data
    made: list[LocalVolume] = field(default_factory=list)

    def new_volume(self, *, lifetime_s: float) -> LocalVolume:
        assert lifetime_s > 0
        folder = Path(tempfile.mkdtemp(prefix="carried-"))
        self.made.append(LocalVolume(str(folder), self.twist))
        return self.made[-1]


def sees_nothing(path: str) -> bool:
    """What an engine with other files than ours says about any path."""
    return False
