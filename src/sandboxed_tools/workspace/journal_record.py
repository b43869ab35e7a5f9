"""Where a file tool leaves what it is about to replace, so that it can be undone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sandboxed_tools.workspace.spelling import Parts

__all__ = ["BeforeImage", "Journal"]


@dataclass(frozen=True, slots=True)
class BeforeImage:
    """A file as it was before a change: its whole content and its permission bits."""

    content: bytes
    mode: int


class Journal(Protocol):
    """Keeps before-images until they are undone or dropped."""

    def record(self, path: Parts, before: BeforeImage | None) -> None:
        """Keep what a file was, durably, before it is changed; ``None`` when it is created.

        Called before the change is made, and also for one that fails afterwards: undoing a change
        that was not made must be harmless. To refuse the change, raise.
        """
        ...
