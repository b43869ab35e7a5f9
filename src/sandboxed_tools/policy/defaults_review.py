"""What a version of the defaults means for tools, as tables that a person can review.

A change of a default can move calls between host and container. So it is never a leap: the review
shows, for every tool and each of its examples, which flags and which placement would change, and a
lock file makes an unreviewed change fail.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sandboxed_tools.policy.placement import decide_placement
from sandboxed_tools.policy.settings import Policy
from sandboxed_tools.tool import AnyTool, ToolInput
from sandboxed_tools.tool.defaults import Defaults, defaults_version

__all__ = ["Change", "Snapshot", "diff_defaults", "diff_snapshots", "snapshot_of"]

Snapshot = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Tool name → example (as JSON text) → flag or ``placement`` → value."""


@dataclass(frozen=True, slots=True)
class Change:
    """One value that differs. ``example`` is an input of the tool as JSON; foreign text."""

    tool: str
    example: str
    what: str
    before: Any
    after: Any


def diff_defaults(tools: Iterable[AnyTool], before: int, after: int) -> tuple[Change, ...]:
    """What would change for tools when version ``after`` supplied what ``before`` does now.

    Raises:
        ToolDefinitionError: there is no such version.
    """
    listed = list(tools)
    return diff_snapshots(
        _snapshot(listed, defaults_version(before)), _snapshot(listed, defaults_version(after))
    )


def snapshot_of(tools: Iterable[AnyTool]) -> Snapshot:
    """What holds for each tool now, under the version that it pins."""
    return _snapshot(list(tools), None)


def diff_snapshots(before: Snapshot, after: Snapshot) -> tuple[Change, ...]:
    """Every value that differs; a tool or example that is only on one side differs as a whole."""
    changes: list[Change] = []
    for tool, example, what in sorted(_keys(before) | _keys(after)):
        old = before.get(tool, {}).get(example, {}).get(what)
        new = after.get(tool, {}).get(example, {}).get(what)
        if old != new:
            changes.append(Change(tool, example, what, old, new))
    return tuple(changes)


def _keys(snapshot: Snapshot) -> set[tuple[str, str, str]]:
    return {
        (tool, example, what)
        for tool, examples in snapshot.items()
        for example, values in examples.items()
        for what in values
    }


def _snapshot(tools: list[AnyTool], defaults: Defaults | None) -> Snapshot:
    return {
        tool.name: {
            example: _values(tool.with_defaults(defaults) if defaults else tool, tool_input)
            for example, tool_input in _examples(tool)
        }
        for tool in tools
    }


def _examples(tool: AnyTool) -> list[tuple[str, ToolInput]]:
    """Its examples; for a tool without any, one input that no validation has seen."""
    found = [
        (json.dumps(example, sort_keys=True, default=str), tool.parse(example))
        for example in tool.examples
    ]
    return found or [("(no example)", tool.input_schema.model_construct())]


def _values(tool: AnyTool, tool_input: ToolInput) -> dict[str, Any]:
    flags = tool.flags(tool_input)
    values = {
        field.name: getattr(flags, field.name)
        for field in dataclasses.fields(flags)
        if isinstance(getattr(flags, field.name), bool)
    }
    placement = decide_placement(tool, flags, Policy(), trusted=True)
    return {**values, "placement if trusted": placement.where}
