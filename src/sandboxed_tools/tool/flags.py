"""Flags of one call: evaluated once, into a frozen value, with every doubt written down."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandboxed_tools.tool.defaults import WORST_CASE, Defaults
from sandboxed_tools.tool.reason import Reason
from sandboxed_tools.tool.schema import ToolInput

__all__ = ["FLAG_NAMES", "Flags", "evaluate_flag", "evaluate_flags"]

FLAG_NAMES: tuple[str, ...] = tuple(WORST_CASE)


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of one tool for one input.

    ``reasons`` is what the tool itself says about this input, for people who ask why; no decision
    rests on it. ``faults`` holds a reason for each flag whose function raised or returned no
    ``bool`` (it then has its worst case), and for a contradiction found at run time.
    """

    is_read_only: bool
    is_concurrency_safe: bool
    needs_sandbox: bool
    is_idempotent: bool
    is_destructive: bool
    is_open_world: bool
    requires_confirmation: bool
    is_reversible: bool
    confirmation_stated: bool
    reasons: tuple[Reason, ...] = ()
    faults: tuple[Reason, ...] = ()


def evaluate_flag(name: str, stated: object, *arguments: object) -> tuple[bool, Reason | None]:
    """The value of one stated flag: a ``bool``, or a function of the input.

    Whatever is wrong with the function gives the flag's worst case and the reason for it. Only
    ``KeyboardInterrupt`` and ``GeneratorExit`` pass through.
    """
    value: object = stated
    if callable(stated):
        try:
            value = stated(*arguments)
        except (Exception, SystemExit) as error:  # noqa: BLE001  (an author's code: the worst case)
            return WORST_CASE[name], _fault(name, f"raised {type(error).__name__}")
    if type(value) is bool:
        return value, None
    if inspect.iscoroutine(value):
        value.close()
    return WORST_CASE[name], _fault(name, f"returned {type(value).__name__}, not bool")


def _fault(name: str, what: str) -> Reason:
    return Reason("flag_fault", f"{name} {what}; it counts as {WORST_CASE[name]}")


def evaluate_flags(stated: Mapping[str, Any], defaults: Defaults, tool_input: ToolInput) -> Flags:
    """Evaluate every flag once for this input.

    Unstated ``is_destructive`` and ``requires_confirmation`` follow from ``is_read_only``; so does
    ``needs_sandbox`` from version 2 of the defaults on. A call that claims to be both read-only
    and destructive is not read-only.
    """
    faults: list[Reason] = []

    def value(name: str, default: bool) -> bool:
        if name not in stated:
            return default
        result, fault = evaluate_flag(name, stated[name], tool_input)
        if fault is not None:
            faults.append(fault)
        return result

    read_only = value("is_read_only", defaults.values["is_read_only"])
    destructive = value("is_destructive", not read_only)
    if read_only and destructive:
        read_only = False
        faults.append(
            Reason("contradiction", "is_read_only and is_destructive both hold: not read-only")
        )
    sandbox_default = defaults.values["needs_sandbox"] or (
        defaults.sandbox_unless_read_only and not read_only
    )
    return Flags(
        is_read_only=read_only,
        is_destructive=destructive,
        requires_confirmation=value("requires_confirmation", not read_only),
        needs_sandbox=value("needs_sandbox", sandbox_default),
        is_concurrency_safe=value("is_concurrency_safe", defaults.values["is_concurrency_safe"]),
        is_idempotent=value("is_idempotent", defaults.values["is_idempotent"]),
        is_open_world=value("is_open_world", defaults.values["is_open_world"]),
        is_reversible=value("is_reversible", defaults.values["is_reversible"]),
        confirmation_stated="requires_confirmation" in stated,
        reasons=_own_reasons(stated.get("flag_reasons"), tool_input),
        faults=tuple(faults),
    )


def _own_reasons(explain: Any, tool_input: ToolInput) -> tuple[Reason, ...]:
    if explain is None:
        return ()
    try:
        return tuple(reason for reason in explain(tool_input) if isinstance(reason, Reason))
    except Exception as error:  # noqa: BLE001  (an author's code; explanations decide nothing)
        return (Reason("flag_fault", f"flag_reasons raised {type(error).__name__}"),)
