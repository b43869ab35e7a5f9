"""What a tool may do over all its inputs, for lists that are read before there is an input."""

from __future__ import annotations

from dataclasses import dataclass

from sandboxed_tools.tool.defaults import WORST_CASE
from sandboxed_tools.tool.interface import AnyTool

__all__ = ["Hints", "worst_case_hints"]


@dataclass(frozen=True, slots=True)
class Hints:
    """The flags of a tool at their worst over every input. No decision rests on them."""

    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool


def worst_case_hints(tool: AnyTool, *, has_network: bool) -> Hints:
    """The hints of a tool.

    A flag that is a function of the input counts as its worst case, since some input may give it. A
    command reaches beyond this machine exactly when its container has a network, whatever its
    author stated: a command that stays on the host has none.
    """
    read_only = _fixed(tool, "is_read_only")
    destructive = (
        _fixed(tool, "is_destructive") if "is_destructive" in tool.stated else not read_only
    )
    if read_only and destructive:
        read_only = False
    return Hints(
        read_only=read_only,
        destructive=destructive,
        idempotent=_fixed(tool, "is_idempotent"),
        open_world=has_network if tool.runs_commands else _fixed(tool, "is_open_world"),
    )


def _fixed(tool: AnyTool, flag: str) -> bool:
    value = tool.stated_value(flag) if flag in tool.stated else tool.defaults.values[flag]
    return value if type(value) is bool else WORST_CASE[flag]
