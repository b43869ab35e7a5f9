"""What a call through a Toolbox gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from sandboxed_tools.policy import Placement
from sandboxed_tools.tool import ExecResult, Flags, PermissionDecision

__all__ = ["CallResult", "Explanation"]

OutputT = TypeVar("OutputT")


@dataclass(frozen=True, slots=True)
class CallResult(Generic[OutputT]):
    """One finished call.

    Attributes:
        tool: the name of the tool.
        output: the tool's output, of the type that its definition says.
        text: the output as text for a model, bounded and marked.
        shown: the output as text for a person; foreign text, to go through ``for_terminal``.
        placement: where it ran, and why.
        decision: which rule allowed it.
        exec: the outcome of the command, for a tool that runs commands.
        duration_s: seconds from the decision to here.
        call_id: names the call in the audit log.
    """

    tool: str
    output: OutputT
    text: str
    shown: str
    placement: Placement
    decision: PermissionDecision
    exec: ExecResult | None
    duration_s: float
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What would happen to a call, without doing any of it."""

    tool: str
    flags: Flags
    placement: Placement
    decision: PermissionDecision
