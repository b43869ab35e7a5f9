"""Where a file tool leaves what it replaces, so that it can be undone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from sandboxed_tools.workspace.spelling import Parts

__all__ = ["BeforeImage", "Journal"]


@dataclass(frozen=True, slots=True)
class BeforeImage:
    """A file as it was before a change: its whole content, its permission bits and its time."""

    content: bytes
    mode: int
    mtime_ns: int = 0


class Journal(Protocol):
    """Keeps before-images until they are undone or dropped."""

    def record(self, path: Parts, before: BeforeImage | None) -> None:
        """Take what a file was, before it is changed; ``None`` when it is created.

        Called for a change that fails afterwards as well. To refuse the change, raise.
        """
        ...

    def wrote(
        self, path: Parts, info: os.stat_result, *, made: Mapping[Parts, os.stat_result]
    ) -> None:
        """The change that was recorded last for this path is made; ``info`` is the new file's, and
        ``made`` are the folders on its way that were made for it.
        """
        ...
