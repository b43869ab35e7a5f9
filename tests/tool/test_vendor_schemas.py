"""Tools in the vendors' forms: as their own types want them, strict only where it is true."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field, TypeAdapter

from sandboxed_tools import ToolInput, build_tool
from sandboxed_tools.builtin import SHIPPED
from sandboxed_tools.tool import AnyTool, Command
from sandboxed_tools.tool.vendor_schemas import to_anthropic, to_json, to_mcp, to_openai
from sandboxed_tools.tool.worst_case import worst_case_hints

SNAPSHOTS = Path(__file__).parent / "vendor_schemas"


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(ToolInput):
    size: int


class StrictInput(ToolInput):
    """Only what both vendors compile."""

    name: str
    colour: Colour
    inner: Inner
    many: list[Inner]
    perhaps: str | None = Field(description="Null when there is none.")


class Node(ToolInput):
    children: list[Node]


class WithMapping(ToolInput):
    values: dict[str, int]


def tool_of(model: type[ToolInput], **stated: Any) -> AnyTool:
    tool: AnyTool = build_tool(
        name="Probe",
        description="A probe.",
        input_schema=model,
        command=lambda tool_input: Command(("true",)),
        **stated,
    )
    return tool


@pytest.mark.parametrize("vendor", ["anthropic", "openai", "openai-chat", "mcp", "json"])
def test_the_shipped_tools_are_described_as_they_were(vendor: str) -> None:
    export = {
        "anthropic": to_anthropic,
        "openai": to_openai,
        "openai-chat": lambda tool: to_openai(tool, api="chat"),
        "mcp": to_mcp,
        "json": to_json,
    }[vendor]
    now = json.dumps([export(tool) for tool in SHIPPED], indent=1, sort_keys=True) + "\n"
    kept = SNAPSHOTS / f"{vendor}.json"
    assert now == kept.read_text(), f"clients see other tools than before; if meant, write {kept}"


def test_the_vendors_own_types_accept_them() -> None:
    from anthropic.types import ToolParam
    from mcp_types import Tool as McpTool
    from openai.types.chat import ChatCompletionFunctionToolParam
    from openai.types.responses import FunctionToolParam

    for tool in SHIPPED:
        for kind, exported in (
            (ToolParam, to_anthropic(tool)),
            (FunctionToolParam, to_openai(tool)),
            (ChatCompletionFunctionToolParam, to_openai(tool, api="chat")),
        ):
            adapter: TypeAdapter[Any] = TypeAdapter(kind)
            assert adapter.validate_python(exported)
            assert exported.keys() <= adapter.json_schema()["properties"].keys() | {"strict"}
        listed = McpTool.model_validate(to_mcp(tool), by_name=False)
        assert listed.input_schema["additionalProperties"] is False


def test_strict_is_stated_where_the_schema_is_enforced_whole() -> None:
    assert to_anthropic(tool_of(StrictInput))["strict"] is True
    assert to_openai(tool_of(StrictInput))["strict"] is True


def test_an_optional_field_is_strict_only_where_a_vendor_has_optional_fields() -> None:
    class Optional(ToolInput):
        name: str
        loud: bool = False

    assert to_anthropic(tool_of(Optional))["strict"] is True
    assert to_openai(tool_of(Optional))["strict"] is False


def test_strict_is_not_stated_for_what_a_vendor_cannot_compile() -> None:
    class Bounded(ToolInput):
        size: int = Field(ge=1)

    class Short(ToolInput):
        name: str = Field(max_length=3)

    assert "strict" not in to_anthropic(tool_of(Bounded))
    assert to_openai(tool_of(Bounded))["strict"] is True
    for model in (Short, WithMapping):
        assert "strict" not in to_anthropic(tool_of(model)), model
        assert to_openai(tool_of(model))["strict"] is False, model
    assert "strict" not in to_anthropic(tool_of(Node)), "recursion"


def test_a_strict_schema_is_the_one_that_the_vendors_own_converter_makes() -> None:
    """The converter of OpenAI's SDK rewrites a schema until it is strict; ours needs no rewriting
    when we say so."""
    from openai.lib._pydantic import to_strict_json_schema

    schema = to_openai(tool_of(StrictInput))["parameters"]
    converted = to_strict_json_schema(StrictInput)
    assert converted == schema


def test_nothing_that_constrains_an_input_is_left_out() -> None:
    for tool in SHIPPED:
        ours = json.dumps(tool.json_schema(), sort_keys=True)
        theirs = json.dumps(to_openai(tool)["parameters"], sort_keys=True)
        assert theirs == ours.replace('"format": "path", ', "")


@pytest.mark.parametrize("tool", SHIPPED, ids=lambda tool: tool.name)
def test_hints_are_the_worst_over_the_examples(tool: AnyTool) -> None:
    hints = worst_case_hints(tool, has_network=False)
    for example in tool.examples:
        flags = tool.flags(tool.parse(example))
        assert not hints.read_only or flags.is_read_only
        assert hints.destructive or not flags.is_destructive
        assert not hints.idempotent or flags.is_idempotent


def test_a_tool_that_states_nothing_has_the_worst_hints() -> None:
    hints = worst_case_hints(tool_of(StrictInput), has_network=True)
    assert hints == type(hints)(False, True, False, True)


def test_a_command_is_open_to_the_world_only_with_a_network() -> None:
    tool = tool_of(StrictInput, is_open_world=True)
    assert not worst_case_hints(tool, has_network=False).open_world
    assert worst_case_hints(tool, has_network=True).open_world


def test_all_four_hints_are_always_there() -> None:
    for tool in (*SHIPPED, tool_of(StrictInput)):
        hints = {k: v for k, v in to_mcp(tool)["annotations"].items() if k.endswith("Hint")}
        assert len(hints) == 4
        assert all(type(value) is bool for value in hints.values())
