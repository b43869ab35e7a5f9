"""What a sandbox is doing, as values for showing."""

from __future__ import annotations

from dataclasses import dataclass

from sandboxed_tools.sandbox.docker.shelf import ShelfStatus

__all__ = ["CallStatus", "SandboxStatus"]


@dataclass(frozen=True, slots=True)
class CallStatus:
    """One call: ``waiting`` for its turn, ``starting`` or ``running``; since when, in Unix time."""

    state: str
    began_at: float
    image: str
    key: str
    container_id: str


@dataclass(frozen=True, slots=True)
class SandboxStatus:
    """Everything of one sandbox in one process at one moment."""

    calls: tuple[CallStatus, ...]
    shelves: tuple[ShelfStatus, ...]
    running: int
    waiting: int
    held_back_by: str
    removing: int
    cleanup_failures: int
