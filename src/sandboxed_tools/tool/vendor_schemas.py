"""Tools as the model vendors and MCP want them described: plain dictionaries, no SDK needed."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import PydanticUserError, TypeAdapter

from sandboxed_tools.tool.interface import AnyTool
from sandboxed_tools.tool.strict_schemas import ANTHROPIC, OPENAI, without_private_formats
from sandboxed_tools.tool.worst_case import worst_case_hints

__all__ = [
    "OpenAIApi",
    "gives_exec_result",
    "to_anthropic",
    "to_json",
    "to_mcp",
    "to_openai",
]

OpenAIApi = Literal["responses", "chat"]


def to_anthropic(tool: AnyTool) -> dict[str, Any]:
    """A tool for the Messages API. ``strict`` is there exactly where the API can enforce it."""
    schema = without_private_formats(tool.json_schema())
    strict = {"strict": True} if ANTHROPIC.accept(schema) else {}
    return {
        "name": tool.name,
        "description": tool.description(),
        "input_schema": schema,
        **strict,
    }


def to_openai(tool: AnyTool, *, api: OpenAIApi = "responses") -> dict[str, Any]:
    """A function tool for the Responses API, or for Chat Completions.

    ``strict`` is always stated: the Responses API takes silence for yes, and would rewrite the
    schema so that optional fields become required.
    """
    schema = without_private_formats(tool.json_schema())
    function = {
        "name": tool.name,
        "description": tool.description(),
        "parameters": schema,
        "strict": OPENAI.accept(schema),
    }
    if api == "chat":
        return {"type": "function", "function": function}
    return {"type": "function", **function}


def to_mcp(tool: AnyTool, *, has_network: bool = False) -> dict[str, Any]:
    """A tool as ``tools/list`` of the Model Context Protocol has it (revision 2025-11-25).

    All four hints are always there, at their worst over every input.
    """
    hints = worst_case_hints(tool, has_network=has_network)
    return {
        "name": tool.name,
        "title": tool.user_facing_name(),
        "description": tool.description(),
        "inputSchema": tool.json_schema(),
        "outputSchema": COMMAND_OUTPUT if gives_exec_result(tool) else _text_output(),
        "annotations": {
            "title": tool.user_facing_name(),
            "readOnlyHint": hints.read_only,
            "destructiveHint": hints.destructive,
            "idempotentHint": hints.idempotent,
            "openWorldHint": hints.open_world,
        },
    }


def to_json(tool: AnyTool) -> dict[str, Any]:
    """Name, description and both JSON schemas, for anything else."""
    return {
        "name": tool.name,
        "aliases": list(tool.aliases),
        "description": tool.description(),
        "input_schema": tool.json_schema(),
        "output_schema": _declared_output(tool),
    }


def gives_exec_result(tool: AnyTool) -> bool:
    """Whether the tool's output is the result of its command, as :data:`COMMAND_OUTPUT` has it."""
    return tool.runs_commands and "map_result" not in tool.stated


def _declared_output(tool: AnyTool) -> dict[str, Any] | None:
    if tool.output_schema is None:
        return None
    try:
        return TypeAdapter(tool.output_schema).json_schema(mode="serialization")
    except PydanticUserError:
        return None


_NULLABLE_TEXT = {"type": ["string", "null"]}
_NULLABLE_NUMBER = {"type": ["number", "null"]}
_NULLABLE_INTEGER = {"type": ["integer", "null"]}

_FACTS: dict[str, Any] = {
    "call_id": {"type": "string", "description": "Names the call in the audit log."},
    "placement": {"enum": ["host", "container"]},
    "reasons": {
        "type": "array",
        "description": "Why it ran there, the deciding reason first.",
        "items": {
            "type": "object",
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
            "required": ["code", "message"],
            "additionalProperties": False,
        },
    },
    "duration_s": {"type": "number"},
}

COMMAND_OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"type": "string", "description": "How it ended: exited, timeout, oom, …"},
        "exit_code": _NULLABLE_INTEGER,
        "signal": _NULLABLE_INTEGER,
        "stdout": {"type": "string", "description": "Head and tail; foreign text."},
        "stderr": {"type": "string", "description": "Head and tail; foreign text."},
        "truncated": {"type": "boolean"},
        "limits_hit": {"type": "array", "items": {"type": "string"}},
        "usage": {
            "type": "object",
            "properties": {
                "cpu_s": _NULLABLE_NUMBER,
                "memory_peak_bytes": _NULLABLE_INTEGER,
                "pids_peak": _NULLABLE_INTEGER,
            },
            "required": ["cpu_s", "memory_peak_bytes", "pids_peak"],
            "additionalProperties": False,
        },
        "changes": {
            "type": ["object", "null"],
            "properties": {
                "decision": {"type": "string"},
                "id": _NULLABLE_TEXT,
                "added": {"type": "integer"},
                "modified": {"type": "integer"},
                "deleted": {"type": "integer"},
            },
            "required": ["decision", "id", "added", "modified", "deleted"],
            "additionalProperties": False,
        },
        "image": _NULLABLE_TEXT,
        **_FACTS,
    },
    "required": [
        "status",
        "exit_code",
        "signal",
        "stdout",
        "stderr",
        "truncated",
        "limits_hit",
        "usage",
        "changes",
        "image",
        *_FACTS,
    ],
    "additionalProperties": False,
}
"""The structured content of a tool whose output is the result of a command."""


def _text_output() -> dict[str, Any]:
    """The structured content of any other tool: what the model is told, and the facts."""
    return {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "The result as a model is told it."},
            **_FACTS,
        },
        "required": ["text", *_FACTS],
        "additionalProperties": False,
    }
