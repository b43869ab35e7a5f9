"""``build_tool``: the one way to make a tool, fail-closed in everything that is left out."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, Unpack, overload

from pydantic import BaseModel, PydanticUserError

from sandboxed_tools.errors import InvalidInput, ToolDefinitionError
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.context import Context
from sandboxed_tools.tool.defaults import WORST_CASE, defaults_version
from sandboxed_tools.tool.interface import OPTION_NAMES, AnyTool, Tool, ToolOptions
from sandboxed_tools.tool.result import ExecResult
from sandboxed_tools.tool.schema import ToolInput, check_closed

__all__ = ["build_tool"]

InputT = TypeVar("InputT", bound=ToolInput)
OutputT = TypeVar("OutputT")
ProgressT = TypeVar("ProgressT")

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_CALLABLE_OPTIONS = frozenset(
    {
        "call",
        "command",
        "map_result",
        "validate_input",
        "for_environment",
        "flag_reasons",
        "check_permissions",
        "permission_pattern",
        "paths_read",
        "paths_written",
        "inputs_equivalent",
        "summarize_use",
        "describe_activity",
        "render_use",
        "render_progress",
        "render_result",
        "render_error",
        "render_rejected",
        "to_model_text",
        "redact",
        "setup",
        "teardown",
        "on_start",
        "on_progress",
        "on_success",
        "on_error",
        "on_cancel",
    }
)


@overload
def build_tool(
    *,
    name: str,
    description: str | Callable[[InputT | None], str],
    input_schema: type[InputT],
    call: Callable[[InputT, Context[ProgressT]], Awaitable[OutputT]],
    output_schema: type[OutputT] | None = ...,
    **options: Unpack[ToolOptions[InputT, OutputT, ProgressT]],
) -> Tool[InputT, OutputT, ProgressT]: ...


@overload
def build_tool(
    *,
    name: str,
    description: str | Callable[[InputT | None], str],
    input_schema: type[InputT],
    call: Callable[[InputT, Context[ProgressT]], OutputT],
    output_schema: type[OutputT] | None = ...,
    **options: Unpack[ToolOptions[InputT, OutputT, ProgressT]],
) -> Tool[InputT, OutputT, ProgressT]: ...


@overload
def build_tool(
    *,
    name: str,
    description: str | Callable[[InputT | None], str],
    input_schema: type[InputT],
    command: Callable[[InputT], Command],
    map_result: Callable[[ExecResult], OutputT],
    output_schema: type[OutputT] | None = ...,
    **options: Unpack[ToolOptions[InputT, OutputT, None]],
) -> Tool[InputT, OutputT, None]: ...


@overload
def build_tool(
    *,
    name: str,
    description: str | Callable[[InputT | None], str],
    input_schema: type[InputT],
    command: Callable[[InputT], Command],
    **options: Unpack[ToolOptions[InputT, ExecResult, None]],
) -> Tool[InputT, ExecResult, None]: ...


def build_tool(**stated: Any) -> Any:
    """Build a tool from its schema, its work, and the flags that its author chose to state.

    Exactly one of ``call`` (a function ``(input, ctx) -> output``, sync or async) and ``command``
    (a pure function ``input -> Command``) is the work. Everything else is supplied with the
    conservative value: forgetting a flag costs speed, never safety. What may be stated is listed
    in :class:`~sandboxed_tools.tool.interface.ToolOptions`.

    Raises:
        ToolDefinitionError: an unknown keyword (with the nearest real one), a contradiction, a
            bad name, a model that allows extra fields, an example that does not fit the schema.
    """
    _check_names(stated)
    _check_identity(stated)
    _check_work(stated)
    _check_flags(stated)
    _check_bounds(stated)
    schema = stated["input_schema"]
    _check_schema(schema)
    tool: AnyTool = Tool(
        input_schema=schema,
        output_schema=stated.get("output_schema"),
        stated={
            key: value
            for key, value in stated.items()
            if key not in ("input_schema", "output_schema", "defaults")
        },
        defaults=defaults_version(stated.get("defaults", 1)),
    )
    _check_examples(tool)
    return tool


def _check_names(stated: Mapping[str, Any]) -> None:
    for name in stated:
        if name not in OPTION_NAMES:
            near = difflib.get_close_matches(name, OPTION_NAMES, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise ToolDefinitionError(f"build_tool has no keyword {name}.{hint}")
    for name in ("name", "description", "input_schema"):
        if name not in stated:
            raise ToolDefinitionError(f"A tool needs {name}.")


def _check_identity(stated: Mapping[str, Any]) -> None:
    aliases = stated.get("aliases", ())
    if isinstance(aliases, str):
        raise ToolDefinitionError("aliases is a sequence of names, not one text.")
    for name in (stated["name"], *aliases):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ToolDefinitionError(
                f"{name!r} is no tool name: a letter, then at most 63 letters, digits, _ or -."
            )
    if len({stated["name"], *aliases}) != 1 + len(tuple(aliases)):
        raise ToolDefinitionError(f"{stated['name']} names the same alias twice.")
    description = stated["description"]
    if not callable(description) and not (isinstance(description, str) and description.strip()):
        raise ToolDefinitionError("description says what the tool does, for a model; it is empty.")


def _check_work(stated: Mapping[str, Any]) -> None:
    if ("call" in stated) == ("command" in stated):
        raise ToolDefinitionError("A tool has exactly one of call= and command=.")
    if "map_result" in stated and "command" not in stated:
        raise ToolDefinitionError("map_result turns a command's result into output; state command.")
    if "carry" in stated and ("call" not in stated or isinstance(stated["carry"], str)):
        raise ToolDefinitionError(
            "carry is a sequence of names, of what a Python function (call=) takes along."
        )
    if stated.get("runs_in", "shell") not in ("shell", "python"):
        raise ToolDefinitionError('runs_in is "shell" or "python".')
    for name in _CALLABLE_OPTIONS & stated.keys():
        if not callable(stated[name]):
            raise ToolDefinitionError(f"{name} is a function.")
    if "command" in stated and inspect.iscoroutinefunction(stated["command"]):
        raise ToolDefinitionError("command is a pure function of the input, not a coroutine.")
    timeout = stated.get("timeout")
    number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if timeout is not None and not callable(timeout) and not (number and 0 < timeout <= 86_400):
        raise ToolDefinitionError("timeout is seconds, over 0 and at most 86,400, or a function.")


def _check_flags(stated: Mapping[str, Any]) -> None:
    for name in WORST_CASE:
        if name not in stated:
            continue
        value = stated[name]
        if type(value) is not bool and not callable(value):
            raise ToolDefinitionError(f"{name} is True, False, or a function of the input.")
        if inspect.iscoroutinefunction(value):
            raise ToolDefinitionError(f"{name} is a plain function; a coroutine is no answer.")
    if stated.get("is_read_only") is True:
        if stated.get("is_destructive") is True:
            raise ToolDefinitionError("is_read_only=True contradicts is_destructive=True.")
        if stated.get("paths_written") is not None:
            raise ToolDefinitionError("is_read_only=True contradicts paths_written.")
    if stated.get("interrupt_behavior", "block") not in ("block", "cancel"):
        raise ToolDefinitionError('interrupt_behavior is "block" or "cancel".')


def _check_bounds(stated: Mapping[str, Any]) -> None:
    for name, least, most in (("max_result_size", 256, 64 * 1024 * 1024), ("max_retries", 0, 5)):
        value = stated.get(name, least)
        if type(value) is not int or not least <= value <= most:
            raise ToolDefinitionError(f"{name} is a whole number from {least} to {most}.")
    for name in ("requires_user_interaction", "defer_loading"):
        if type(stated.get(name, False)) is not bool:
            raise ToolDefinitionError(f"{name} is True or False.")


def _check_schema(schema: object) -> None:
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
        raise ToolDefinitionError("input_schema is a model class derived from ToolInput.")
    if not issubclass(schema, ToolInput):
        raise ToolDefinitionError(f"{schema.__name__} must be derived from ToolInput.")
    if schema.model_config.get("frozen") is not True:
        raise ToolDefinitionError(f"{schema.__name__} must stay frozen.")
    try:
        check_closed(schema)
    except PydanticUserError as error:
        raise ToolDefinitionError(f"{schema.__name__} has no JSON schema: {error}") from error


def _check_examples(tool: AnyTool) -> None:
    for number, example in enumerate(tool.examples):
        try:
            tool.parse(example)
        except InvalidInput as error:
            raise ToolDefinitionError(f"Example {number} of {tool.name}: {error}") from None
