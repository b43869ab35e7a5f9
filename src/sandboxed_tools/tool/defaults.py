"""What the factory supplies when an author says nothing: versioned, immutable, conservative."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sandboxed_tools.errors import ToolDefinitionError

__all__ = ["DEFAULTS", "TOOL_DEFAULTS", "WORST_CASE", "Defaults", "defaults_version"]


def always() -> bool:
    """An ``is_enabled`` that holds always."""
    return True


WORST_CASE: Mapping[str, bool] = MappingProxyType(
    {
        "is_read_only": False,
        "is_concurrency_safe": False,
        "needs_sandbox": True,
        "is_idempotent": False,
        "is_destructive": True,
        "is_open_world": True,
        "requires_confirmation": True,
        "is_reversible": False,
        "is_enabled": False,
    }
)
"""What a flag counts as when its function raises, or returns anything but a ``bool``."""

TOOL_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "is_concurrency_safe": False,
        "is_read_only": False,
        "needs_sandbox": False,
        "is_idempotent": False,
        "is_enabled": always,
        "aliases": (),
        "search_hint": None,
        "is_open_world": WORST_CASE["is_open_world"],
        "is_reversible": WORST_CASE["is_reversible"],
    }
)
"""Version 1. ``is_destructive`` and ``requires_confirmation`` are, unless stated, true exactly when
the call is not read-only; a fixed value cannot say that, so they stand in :class:`Defaults`."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """One version of the defaults.

    ``sandbox_unless_read_only``: a tool that is not read-only for this input needs the sandbox
    unless its author says otherwise.
    """

    version: int
    values: Mapping[str, Any]
    sandbox_unless_read_only: bool
    reason: str


DEFAULTS: Mapping[int, Defaults] = MappingProxyType(
    {
        1: Defaults(
            1,
            TOOL_DEFAULTS,
            sandbox_unless_read_only=False,
            reason="The first version. Command tools are contained by placement, whatever is "
            "stated; a Python tool stays on the host unless it asks for the sandbox.",
        ),
        2: Defaults(
            2,
            TOOL_DEFAULTS,
            sandbox_unless_read_only=True,
            reason="A Python tool that may write is contained too, unless its author says "
            "otherwise.",
        ),
    }
)


def defaults_version(version: object) -> Defaults:
    """The defaults of a version.

    Raises:
        ToolDefinitionError: there is no such version.
    """
    if type(version) is not int or version not in DEFAULTS:
        known = ", ".join(map(str, DEFAULTS))
        raise ToolDefinitionError(f"defaults={version!r} does not exist; versions are {known}.")
    return DEFAULTS[version]
