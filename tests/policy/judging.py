"""Tools that rules are about, and what rules say of a call of theirs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from sandboxed_tools.policy.rules import Rule, RuleSet, Scope
from sandboxed_tools.tool import AnyTool, ToolInput, build_tool


class TextInput(ToolInput):
    text: str = ""


def tool(name: str = "Bash", **stated: Any) -> AnyTool:
    options: dict[str, Any] = {
        "permission_pattern": lambda tool_input: tool_input.text,
        **stated,
    }
    return build_tool(
        name=name,
        description="x",
        input_schema=TextInput,
        call=lambda _, ctx: None,
        **options,
    )


BASH = tool()
EDIT = tool("Edit", paths_written=lambda tool_input: (PurePath(tool_input.text),))
READ = tool("Read", paths_read=lambda tool_input: (PurePath(tool_input.text),))
FETCH = tool("Fetch")
PLAIN: AnyTool = build_tool(
    name="Plain", description="x", input_schema=TextInput, call=lambda _, ctx: None
)


def rules(*texts: str) -> list[Rule]:
    return [Rule.parse(text) for text in texts]


def verdict(
    made: AnyTool,
    text: str,
    *,
    deny: Iterable[str] = (),
    ask: Iterable[str] = (),
    allow: Iterable[str] = (),
    scope: Scope = Scope(),  # noqa: B008  (frozen)
) -> str | None:
    made_rules = RuleSet(deny=rules(*deny), ask=rules(*ask), allow=rules(*allow))
    found = made_rules.verdict(made, TextInput(text=text), scope)
    return None if found is None else found.behavior
