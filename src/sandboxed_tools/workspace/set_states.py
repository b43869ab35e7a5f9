"""The states of all change sets, each read from the disk once.

Every call that may change something asks for them, and a store keeps a month of sets: to read them
all each time would cost a call more than its container.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sandboxed_tools.workspace.change import SetState

__all__ = ["SetStates", "is_set_id", "read_object", "states_in"]

_ID: Final = re.compile(r"[0-9a-f]{8}")
_SETTLED_NS: Final = 2_000_000_000
"""Time stamps are coarse: what was written just now may be written again in the same moment."""

_Stamp = tuple[int, int, int, int]
_log = logging.getLogger(__name__)


def is_set_id(text: str) -> bool:
    """Whether it can be a change set's id, and so the name of its folder."""
    return _ID.fullmatch(text) is not None


@functools.lru_cache(maxsize=4)
def states_in(folder: Path) -> SetStates:
    """What this process knows of the sets in a folder, one object for all its stores."""
    return SetStates(folder)


@dataclass(slots=True)
class SetStates:
    """Reads each state again only when its file is another one, as every decision makes it.

    Safe to share by threads; other processes' decisions are seen at once.
    """

    folder: Path
    _known: dict[str, tuple[_Stamp, SetState]] = field(default_factory=dict)

    def all(self) -> list[SetState]:
        """Every set that can be read, oldest first. Blocking, O(sets)."""
        known: dict[str, tuple[_Stamp, SetState]] = {}
        found: list[SetState] = []
        for name in filter(is_set_id, os.listdir(self.folder)):
            try:
                stamp, state = self._look(name)
            except (FileNotFoundError, ValueError, KeyError, TypeError):
                # Removed meanwhile, or damaged; asking for it by its id says which.
                _log.debug("change set %s cannot be listed", name)
                continue
            found.append(state)
            if time.time_ns() - stamp[2] > _SETTLED_NS:
                known[name] = stamp, state
        self._known = known
        return sorted(found, key=lambda item: (item.created_s, item.id))

    def one(self, change_set_id: str) -> SetState:
        """The state of one set, as it is on the disk now.

        Raises:
            FileNotFoundError: there is none of this id.
            ValueError, KeyError, TypeError: it is damaged.
        """
        return self._look(change_set_id)[1]

    def _look(self, name: str) -> tuple[_Stamp, SetState]:
        path = f"{self.folder}/{name}/state.json"
        known = self._known.get(name)
        if known is not None and known[0] == _stamp(os.stat(path)):
            return known
        with open(path, "rb") as file:
            stamp = _stamp(os.fstat(file.fileno()))
            state = SetState.from_json(read_object(file.read()))
        if state.id != name or not isinstance(state.created_s, int | float):
            raise ValueError("it is the state of another set, or of none")
        return stamp, state


def read_object(data: bytes) -> dict[str, Any]:
    """The JSON object that a file of a set holds.

    Raises:
        ValueError, TypeError: it is damaged.
    """
    value = json.loads(data.decode("ascii"))
    if not isinstance(value, dict):
        raise TypeError("it holds no object")
    return value


def _stamp(info: os.stat_result) -> _Stamp:
    return info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns
