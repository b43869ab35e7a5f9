"""The factory: whatever the author forgot is treated as dangerous; what contradicts is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from sandboxed_tools.errors import InvalidInput, NotAuthorized, ToolDefinitionError
from sandboxed_tools.tool import TOOL_DEFAULTS, Command, ToolInput, build_tool
from sandboxed_tools.tool.interface import GROUPS


class PathInput(ToolInput):
    path: str
    depth: int = 1


def read(tool_input: PathInput, ctx: object) -> str:
    return tool_input.path


def tool(**stated: Any) -> Any:
    options: dict[str, Any] = {
        "name": "Look",
        "description": "Look at a path.",
        "input_schema": PathInput,
        "call": read,
    }
    build: Callable[..., Any] = build_tool
    return build(**{**options, **stated})


def test_a_tool_whose_author_states_nothing_is_treated_as_dangerous() -> None:
    flags = tool().flags(PathInput(path="x"))
    assert not flags.is_read_only
    assert not flags.is_concurrency_safe
    assert not flags.is_idempotent
    assert not flags.is_reversible
    assert flags.is_destructive
    assert flags.is_open_world
    assert flags.requires_confirmation


def test_defaults_are_immutable_and_hold_what_version_one_promises() -> None:
    with pytest.raises(TypeError):
        TOOL_DEFAULTS["is_read_only"] = True  # type: ignore[index]
    assert TOOL_DEFAULTS["is_concurrency_safe"] is False
    assert TOOL_DEFAULTS["is_read_only"] is False
    assert TOOL_DEFAULTS["needs_sandbox"] is False
    assert TOOL_DEFAULTS["is_idempotent"] is False
    assert TOOL_DEFAULTS["is_enabled"]() is True
    assert TOOL_DEFAULTS["aliases"] == ()
    assert TOOL_DEFAULTS["search_hint"] is None


def test_confirmation_and_destruction_follow_from_read_only_unless_stated() -> None:
    looking = tool(is_read_only=True).flags(PathInput(path="x"))
    assert not looking.requires_confirmation
    assert not looking.is_destructive
    stated = tool(is_read_only=True, requires_confirmation=True).flags(PathInput(path="x"))
    assert stated.requires_confirmation


def test_version_two_sandboxes_what_is_not_read_only_unless_the_author_says_otherwise() -> None:
    assert tool(defaults=2).needs_sandbox(PathInput(path="x"))
    assert not tool(defaults=1).needs_sandbox(PathInput(path="x"))
    assert not tool(defaults=2, is_read_only=True).needs_sandbox(PathInput(path="x"))
    assert not tool(defaults=2, needs_sandbox=False).needs_sandbox(PathInput(path="x"))


def _raise(_: object) -> bool:
    raise RuntimeError("boom")


def _exit(_: object) -> bool:
    raise SystemExit(0)


async def _later() -> bool:
    return True


@pytest.mark.parametrize(
    "broken",
    [_raise, _exit, lambda _: None, lambda _: 1, lambda _: "yes", lambda _: _later()],
    ids=["raises", "exits", "none", "one", "text", "coroutine"],
)
def test_a_broken_flag_function_counts_as_its_worst_case_and_is_written_down(
    broken: Callable[[object], Any],
) -> None:
    broken_flags = {
        name: broken
        for name in (
            "is_read_only",
            "is_concurrency_safe",
            "needs_sandbox",
            "is_idempotent",
            "is_destructive",
            "is_open_world",
            "requires_confirmation",
            "is_reversible",
        )
    }
    flags = tool(**broken_flags).flags(PathInput(path="x"))
    assert flags.needs_sandbox
    assert flags.is_destructive
    assert flags.is_open_world
    assert flags.requires_confirmation
    assert not flags.is_read_only
    assert not flags.is_concurrency_safe
    assert not flags.is_idempotent
    assert not flags.is_reversible
    assert len(flags.faults) == len(broken_flags)
    assert {reason.code for reason in flags.faults} == {"flag_fault"}


def test_a_tool_whose_enabled_function_is_broken_does_not_exist() -> None:
    assert not tool(is_enabled=lambda: 1).is_enabled()
    assert tool().is_enabled()


def test_read_only_and_destructive_at_run_time_means_not_read_only() -> None:
    flags = tool(is_read_only=lambda _: True, is_destructive=lambda _: True).flags(
        PathInput(path="x")
    )
    assert not flags.is_read_only
    assert [reason.code for reason in flags.faults] == ["contradiction"]


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"is_readonly": True}, "is_read_only"),
        ({"concurrency_safe": True}, "is_concurrency_safe"),
        ({"qqqq": 1}, "no keyword qqqq"),
        ({"is_read_only": True, "is_destructive": True}, "contradicts"),
        ({"is_read_only": True, "paths_written": lambda _: ()}, "contradicts"),
        ({"is_read_only": "yes"}, "True, False, or a function"),
        ({"is_read_only": 1}, "True, False, or a function"),
        ({"is_read_only": None}, "True, False, or a function"),
        ({"name": "rm -rf"}, "no tool name"),
        ({"name": ""}, "no tool name"),
        ({"name": "é"}, "no tool name"),
        ({"name": "Look\n"}, "no tool name"),
        ({"aliases": "ab"}, "not one text"),
        ({"aliases": ("Look",)}, "twice"),
        ({"description": " "}, "description"),
        ({"command": lambda _: Command(("ls",))}, "exactly one"),
        ({"call": 3}, "call is a function"),
        ({"defaults": 3}, "does not exist"),
        ({"defaults": True}, "does not exist"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"interrupt_behavior": "never"}, "interrupt_behavior"),
        ({"examples": ({"paht": "x"},)}, "Example 0"),
        ({"map_result": lambda _: 1}, "map_result"),
    ],
)
def test_a_definition_that_cannot_be_right_is_refused_with_the_next_step(
    stated: dict[str, Any], message: str
) -> None:
    with pytest.raises(ToolDefinitionError, match=message):
        tool(**stated)


def test_a_model_that_allows_extra_fields_is_refused_even_when_it_is_nested() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        a: int = 1

    class Plain(BaseModel):
        a: int = 1

    class Nested(ToolInput):
        inner: Plain

    class Loosened(ToolInput):
        model_config = ConfigDict(extra="ignore")
        a: int = 1

    class Thawed(ToolInput):
        model_config = ConfigDict(frozen=False)
        a: int = 1

    for schema in (Open, Plain, Nested, Loosened, Thawed):
        with pytest.raises(ToolDefinitionError):
            tool(input_schema=schema)


def test_an_async_flag_function_is_refused_at_definition() -> None:
    async def later(_: object) -> bool:
        return True

    with pytest.raises(ToolDefinitionError, match="coroutine"):
        tool(is_read_only=later)


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({"path": 3}, "path"),
        ({}, "path"),
        ({"path": "x", "dpeth": 3}, "dpeth"),
        ({"path": "x", "depth": "many"}, "depth"),
        ({"path": "x", "depth": float("nan")}, "depth"),
        ([], ""),
        (None, ""),
        ("path", ""),
    ],
)
def test_a_wrong_input_names_the_field_before_any_code_of_the_tool_runs(
    raw: object, path: str
) -> None:
    def never(_: object) -> Any:
        raise AssertionError("the tool's code ran")

    with pytest.raises(InvalidInput) as caught:
        tool(validate_input=never, is_read_only=never).parse(raw)
    assert caught.value.fields[0].path == path


def test_an_invalid_value_is_not_repeated_in_the_error() -> None:
    with pytest.raises(InvalidInput) as caught:
        tool().parse({"path": "x", "depth": "hunter2-secret"})
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(caught.value.fields)


def test_an_input_built_past_validation_is_validated_again() -> None:
    forged = PathInput.model_construct(path=3)
    with pytest.raises(InvalidInput):
        tool().parse(forged)


def test_the_tools_own_check_refuses_and_a_broken_one_refuses_too() -> None:
    with pytest.raises(InvalidInput, match="too deep"):
        tool(validate_input=lambda _: "too deep").parse({"path": "x"})
    with pytest.raises(InvalidInput, match="could not be checked"):
        tool(validate_input=_raise).parse({"path": "x"})


def test_there_are_over_thirty_methods_in_seven_groups_and_each_answers() -> None:
    made = tool()
    assert len(GROUPS) == 7
    names = [name for group in GROUPS.values() for name in group]
    assert len(names) == len(set(names)) > 30
    for name in names:
        assert hasattr(made, name), name


async def test_a_call_without_a_context_from_a_toolbox_is_not_authorized() -> None:
    class Forged:
        ticket = object()

    for context in (None, object(), Forged()):
        with pytest.raises(NotAuthorized):
            await tool().call(PathInput(path="x"), context)


def test_a_tool_cannot_be_changed_after_it_is_built() -> None:
    made = tool()
    for name in ("name", "is_read_only", "defaults", "_stated", "input_schema"):
        with pytest.raises(AttributeError):
            setattr(made, name, lambda _: True)


def test_the_schema_that_a_model_sees_is_closed_and_a_copy() -> None:
    made = tool()
    schema = made.json_schema()
    assert schema["additionalProperties"] is False
    schema["additionalProperties"] = True
    assert made.json_schema()["additionalProperties"] is False
