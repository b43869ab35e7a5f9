"""Where a call runs: the one place that decides it, as a pure function with reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sandboxed_tools.policy.settings import Policy
from sandboxed_tools.tool import AnyTool, Flags, Reason

__all__ = ["Placement", "decide_placement"]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a call runs, and why. ``reasons`` is never empty."""

    where: Literal["host", "container"]
    reasons: tuple[Reason, ...]


def decide_placement(tool: AnyTool, flags: Flags, policy: Policy, *, trusted: bool) -> Placement:
    """Decide between host and container. Pure: the same arguments give the same answer.

    In order: the call needs the sandbox; it runs a command that is not read-only; the policy wants
    everything contained, or the tool is not trusted; otherwise the host. All reasons that hold are
    listed, the deciding one first, then what the tool says itself, faults of flag functions last.
    """
    contained: list[Reason] = []
    if flags.needs_sandbox:
        contained.append(Reason("needs_sandbox", f"{tool.name} needs the sandbox for this input"))
    if tool.runs_commands and not flags.is_read_only:
        contained.append(
            Reason("command_not_read_only", "it runs a command that is not proven read-only")
        )
    if policy.sandbox == "always":
        contained.append(Reason("policy_always", "the policy sends every call to a container"))
    if not trusted or not policy.trusts(tool.name):
        contained.append(Reason("not_trusted", f"{tool.name} is not among the trusted tools"))
    if contained:
        return Placement("container", (*contained, *flags.reasons, *flags.faults))
    work = "a command proven read-only" if tool.runs_commands else "a trusted tool"
    reason = Reason("host", f"{work}, and nothing asks for the sandbox")
    return Placement("host", (reason, *flags.reasons, *flags.faults))
