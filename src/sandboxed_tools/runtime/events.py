"""What an executor tells: a call started, moved on, printed, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sandboxed_tools.errors import SandboxedToolsError
from sandboxed_tools.policy import Placement
from sandboxed_tools.runtime.result import CallResult
from sandboxed_tools.tool.result import Stream

__all__ = ["Event", "Finished", "LastEvent", "Output", "Progress", "Refused", "Started"]


@dataclass(frozen=True, slots=True)
class Started:
    """Nothing can refuse the call any more; its work begins."""

    id: str
    tool: str
    placement: Placement


@dataclass(frozen=True, slots=True)
class Progress:
    """A value that the tool reported. ``text`` is foreign text."""

    id: str
    value: Any
    text: str


@dataclass(frozen=True, slots=True)
class Output:
    """A piece of live output. ``dropped_bytes`` came before it and were not kept for showing,
    because nobody took the events in time; the result has head and tail in any case."""

    id: str
    stream: Stream
    data: bytes
    dropped_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of a call whose work began, in the order of submission.

    ``ok`` has a ``result`` (a command that ended with another code than 0 is one); ``failed`` and
    ``cancelled`` have an ``error``. ``text`` is for the model in every case, ``shown`` for a
    person: foreign text, to go through ``for_terminal``.
    """

    id: str
    tool: str
    outcome: Literal["ok", "failed", "cancelled"]
    text: str
    shown: str
    result: CallResult[Any] | None = None
    error: SandboxedToolsError | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The last event of a call that nothing has run of, in the order of submission.

    ``text`` is for the model, ``shown`` for a person, as in :class:`Finished`.
    """

    id: str
    tool: str
    text: str
    shown: str
    error: SandboxedToolsError


LastEvent = Finished | Refused
Event = Started | Progress | Output | Finished | Refused
