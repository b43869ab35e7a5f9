"""Taking a tree to an engine that does not share our files: the contracts.

``workspace`` knows what a tree is, and has a program that speaks its language. ``sandbox`` has the
volumes, and the containers in which that program runs beside a tree; neither imports the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, Protocol

__all__ = ["HELPER_ARGV", "Helper", "TreeCarrier", "TreeVolume", "helper_program"]

_LOADER: Final = """
import json, sys, types
read = sys.stdin.buffer.read
job = json.loads(read(int.from_bytes(read(8), "big")))
for name, text in job["modules"]:
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = []
    exec(compile(text, name, "exec"), module.__dict__)
sys.modules[job["entry"]].main(job["argument"])
"""

HELPER_ARGV: Final = ("python3", "-I", "-S", "-B", "-c", _LOADER)
"""A Python that gets its program over standard input, so that it is always the client's version."""


def helper_program(
    modules: Mapping[str, str], *, entry: str, argument: Mapping[str, object]
) -> bytes:
    """What a helper is sent first: ``main(argument)`` of ``entry`` runs after all are loaded.

    ``modules`` are source texts by their full names, each after what it imports.
    """
    job = {"modules": list(modules.items()), "entry": entry, "argument": dict(argument)}
    text = json.dumps(job).encode("utf-8")
    return len(text).to_bytes(8, "big") + text


class Helper(Protocol):
    """A program of ours that runs beside a tree: its standard input and output."""

    @property
    def tree(self) -> str:
        """Where the program finds the tree."""
        ...

    def send(self, data: bytes) -> None:
        """Send all of it. Blocking, with a deadline.

        Raises:
            SandboxUnavailable: the helper or the engine is gone, or takes nothing any more.
        """
        ...

    def receive(self, most: int) -> bytes:
        """At least one byte, and at most so many. Blocking, with a deadline.

        Raises:
            SandboxUnavailable: the helper or the engine is gone, or nothing came for too long.
        """
        ...

    def close(self) -> None:
        """End the program, and remove its container. Safe to call more than once."""
        ...


class TreeVolume(Protocol):
    """A place on the engine for one tree."""

    @property
    def name(self) -> str:
        """The name of the engine's volume, for :class:`sandboxed_tools.tool.mounts.Mount`."""
        ...

    def helper(self, *, writable: bool) -> Helper:
        """Start a Python (:data:`HELPER_ARGV`) beside the volume.

        It has no network. A ``writable`` one may give the tree to another user and become that
        user; any other may read everything, whatever its mode, and write nothing.

        Raises:
            SandboxUnavailable: it cannot be had.
        """
        ...

    def close(self) -> None:
        """Remove the volume; its helpers must be closed. Safe to call more than once."""
        ...


class TreeCarrier(Protocol):
    """Makes places for trees. Implemented by a backend, and handed to ``workspace``."""

    def new_volume(self, *, lifetime_s: float) -> TreeVolume:
        """Make an empty one that nobody needs after ``lifetime_s``. Blocking.

        Raises:
            SandboxUnavailable: the engine could not do it.
        """
        ...
