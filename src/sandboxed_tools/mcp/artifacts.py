"""Files that a call gave back as bytes, kept in memory for the client whose call it was."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from sandboxed_tools.builtin import CodeResult
from sandboxed_tools.builtin.media_type import media_type
from sandboxed_tools.builtin.picture_type import picture_type
from sandboxed_tools.tool import for_terminal
from sandboxed_tools.workspace.read_file import MediaContent

__all__ = ["KeptArtifact", "KeptArtifacts"]

MAX_KEPT_BYTES: Final = 32 * 1024 * 1024
MAX_KEPT: Final = 1000


@dataclass(frozen=True, slots=True)
class KeptArtifact:
    """One file. ``key`` is the call's id and a number; nothing that the call chose is in it.

    ``picture`` is its media type where it can be shown as a picture. Both types are told by the
    content: what claims to be a picture and is none is only bytes.
    """

    key: str
    name: str
    data: bytes = field(repr=False)
    media_type: str
    picture: str | None


class KeptArtifacts:
    """The artifacts of one client: at most 1000 and 32 MiB, the oldest are forgotten first."""

    def __init__(self) -> None:
        self._kept: dict[str, KeptArtifact] = {}
        self._bytes = 0

    @property
    def all(self) -> tuple[KeptArtifact, ...]:
        """What is kept, the oldest first."""
        return tuple(self._kept.values())

    def get(self, key: str) -> KeptArtifact | None:
        """What has this key; ``None`` when there is nothing, or nothing any more."""
        return self._kept.get(key)

    def keep(self, call_id: str, output: Any) -> tuple[KeptArtifact, ...]:
        """Keep the files of a call's output; older ones may have to go for them."""
        made = tuple(
            _kept(f"{call_id}-{number}", name, data)
            for number, (name, data) in enumerate(_files(output), start=1)
        )
        for item in made:
            self._kept[item.key] = item
            self._bytes += len(item.data)
        while len(self._kept) > MAX_KEPT or self._bytes > MAX_KEPT_BYTES:
            self._bytes -= len(self._kept.pop(next(iter(self._kept))).data)
        return made


def _files(output: Any) -> Iterable[tuple[str, bytes]]:
    if isinstance(output, CodeResult):
        return [(item.name, item.data) for item in output.artifacts]
    if isinstance(output, MediaContent):
        return [(os.path.basename(output.path), output.data)]
    return ()


def _kept(key: str, name: str, data: bytes) -> KeptArtifact:
    picture, told = picture_type(data), media_type(data)
    is_false = picture is None and told.startswith("image/")
    return KeptArtifact(
        key=key,
        name=for_terminal(name, one_line=True)[:200],
        data=data,
        media_type="application/octet-stream" if is_false else told,
        picture=picture,
    )
