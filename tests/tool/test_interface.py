"""Every method of the interface: what it answers when nothing is stated, and what an author's
answer changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import pytest

from sandboxed_tools.errors import InvalidInput, ToolDefinitionError
from sandboxed_tools.tool import (
    AnyTool,
    Command,
    Environment,
    ExecResult,
    PermissionDecision,
    Reason,
    ToolInput,
    build_tool,
)
from sandboxed_tools.tool.interface import GROUPS


class PathInput(ToolInput):
    path: str
    depth: int = 1


INPUT = PathInput(path="x")


def tool(**stated: Any) -> AnyTool:
    work: dict[str, Any] = {} if "command" in stated else {"call": lambda _, ctx: "done"}
    build: Callable[..., Any] = build_tool
    made: AnyTool = build(
        **{
            "name": "Look",
            "description": "Look at a path.",
            "input_schema": PathInput,
            **work,
            **stated,
        }
    )
    return made


DECISION = PermissionDecision("ask", "because")
RESULT = ExecResult("exited", exit_code=0, stdout=b"out")
REASON = Reason("why", "so")

CASES: dict[str, tuple[Callable[[AnyTool], object], object, Any, object]] = {
    # method: (how it is asked, the supplied answer, what an author states, the answer then)
    "aliases": (lambda t: t.aliases, (), ("See",), ("See",)),
    "description": (
        lambda t: t.description(INPUT),
        "Look at a path.",
        lambda i: f"Look at {i.path if i else 'a path'}.",
        "Look at x.",
    ),
    "prompt": (lambda t: t.prompt(), "", lambda e: f"in {e.workspace}", "in None"),
    "search_hint": (lambda t: t.search_hint, None, "eyes", "eyes"),
    "user_facing_name": (lambda t: t.user_facing_name(INPUT), "Look", lambda i: "Peek", "Peek"),
    "version": (lambda t: t.version, "1", "2.1", "2.1"),
    "output_schema": (lambda t: t.output_schema, None, str, str),
    "examples": (lambda t: t.examples, (), ({"path": "y"},), ({"path": "y"},)),
    "inputs_equivalent": (
        lambda t: t.inputs_equivalent(INPUT, PathInput(path="X")),
        False,
        lambda a, b: a.path.lower() == b.path.lower(),
        True,
    ),
    "validate_input": (lambda t: t.validate_input(INPUT), None, lambda i: "no", "no"),
    "max_result_size": (lambda t: t.max_result_size, 65_536, 1000, 1000),
    "timeout": (lambda t: t.timeout(INPUT), None, lambda i: i.depth * 5.0, 5.0),
    "check_permissions": (lambda t: t.check_permissions(INPUT), None, lambda i: DECISION, DECISION),
    "permission_pattern": (lambda t: t.permission_pattern(INPUT), "", lambda i: i.path, "x"),
    "requires_confirmation": (lambda t: t.requires_confirmation(INPUT), True, False, False),
    "paths_read": (
        lambda t: t.paths_read(INPUT),
        (),
        lambda i: [PurePath(i.path)],
        (PurePath("x"),),
    ),
    "paths_written": (
        lambda t: t.paths_written(INPUT),
        (),
        lambda i: [PurePath(i.path)],
        (PurePath("x"),),
    ),
    "requires_user_interaction": (lambda t: t.requires_user_interaction(), False, True, True),
    "is_read_only": (lambda t: t.is_read_only(INPUT), False, lambda i: i.depth == 1, True),
    "is_concurrency_safe": (lambda t: t.is_concurrency_safe(INPUT), False, True, True),
    "needs_sandbox": (lambda t: t.needs_sandbox(INPUT), False, True, True),
    "is_idempotent": (lambda t: t.is_idempotent(INPUT), False, True, True),
    "is_destructive": (lambda t: t.is_destructive(INPUT), True, False, False),
    "is_open_world": (lambda t: t.is_open_world(INPUT), True, False, False),
    "is_reversible": (lambda t: t.is_reversible(INPUT), False, True, True),
    "is_enabled": (lambda t: t.is_enabled(), True, lambda: False, False),
    "flag_reasons": (lambda t: t.flag_reasons(INPUT), (), lambda i: [REASON], (REASON,)),
    "interrupt_behavior": (lambda t: t.interrupt_behavior, "block", "cancel", "cancel"),
    "max_retries": (lambda t: t.max_retries, 1, 3, 3),
    "defer_loading": (lambda t: t.defer_loading, False, True, True),
    "summarize_use": (lambda t: t.summarize_use(INPUT), "Look", lambda i: f"at {i.path}", "at x"),
    "describe_activity": (
        lambda t: t.describe_activity(INPUT),
        "Running Look",
        lambda i: "Looking",
        "Looking",
    ),
    "render_use": (
        lambda t: t.render_use(INPUT),
        'Look({"path": "x", "depth": 1})',
        lambda i: f"look {i.path}",
        "look x",
    ),
    "render_progress": (lambda t: t.render_progress(3), "3", lambda n: f"{n} %", "3 %"),
    "render_result": (lambda t: t.render_result("out"), "out", lambda o: o.upper(), "OUT"),
    "render_error": (
        lambda t: t.render_error(ValueError("no")),
        "Look: no",
        lambda e: f"sorry: {e}",
        "sorry: no",
    ),
    "render_rejected": (
        lambda t: t.render_rejected(INPUT),
        "Look was not run",
        lambda i: "not now",
        "not now",
    ),
    "to_model_text": (lambda t: t.to_model_text({"n": 1}), '{"n": 1}', lambda o: "text", "text"),
    "redact": (
        lambda t: t.redact(INPUT),
        {"path": "x", "depth": 1},
        lambda i: {"path": "…"},
        {"path": "…"},
    ),
}

ELSEWHERE = {
    "name": "test_what_every_tool_states",
    "input_schema": "test_what_every_tool_states",
    "json_schema": "test_what_every_tool_states",
    "call": "tests/runtime/test_toolbox.py",
    "command": "test_a_command_tool_gives_its_command_and_maps_its_result",
    "map_result": "test_a_command_tool_gives_its_command_and_maps_its_result",
    "setup": "test_each_hook_is_called_with_what_it_is_promised",
    "on_start": "test_each_hook_is_called_with_what_it_is_promised",
    "on_progress": "test_each_hook_is_called_with_what_it_is_promised",
    "on_success": "test_each_hook_is_called_with_what_it_is_promised",
    "on_error": "test_each_hook_is_called_with_what_it_is_promised",
    "on_cancel": "test_each_hook_is_called_with_what_it_is_promised",
    "teardown": "test_each_hook_is_called_with_what_it_is_promised",
}


def test_every_method_of_the_interface_is_tested_and_documented() -> None:
    methods = {method for group in GROUPS.values() for method in group}
    assert methods == set(CASES) | set(ELSEWHERE)
    for method in methods - {"name", "version", "input_schema", "output_schema"}:
        assert getattr(type(tool()), method).__doc__, f"{method} says nothing of itself"


@pytest.mark.parametrize("method", CASES)
def test_a_method_answers_with_its_default_and_with_what_its_author_states(method: str) -> None:
    ask, supplied, stated, answer = CASES[method]
    assert ask(tool()) == supplied
    made = tool(**{method: stated})
    assert ask(made) == answer
    if method not in ("description", "output_schema"):
        assert method in made.stated
        assert method not in tool().stated


def test_what_every_tool_states() -> None:
    made = tool()
    assert made.name == "Look"
    assert made.input_schema is PathInput
    assert made.json_schema()["additionalProperties"] is False


def test_a_command_tool_gives_its_command_and_maps_its_result() -> None:
    plain = tool(command=lambda i: Command(("ls", i.path)))
    assert plain.command(INPUT).argv == ("ls", "x")
    assert plain.map_result(RESULT) is RESULT
    mapped = tool(command=lambda i: Command(("ls",)), map_result=lambda r: r.stdout_text)
    assert mapped.map_result(RESULT) == "out"
    with pytest.raises(ToolDefinitionError):
        tool().command(INPUT)
    with pytest.raises(ToolDefinitionError):
        tool(command=lambda i: "ls").command(INPUT)


async def test_each_hook_is_called_with_what_it_is_promised() -> None:
    seen: list[tuple[object, ...]] = []

    async def hook(name: str) -> None:
        seen.append((name,))

    made = tool(
        setup=lambda: hook("setup"),
        teardown=lambda: hook("teardown"),
        **{
            name: lambda *arguments, name=name: seen.append((name, *arguments))
            for name in ("on_start", "on_progress", "on_success", "on_error", "on_cancel")
        },
    )
    error = ValueError()
    await made.setup()
    made.on_start(INPUT)
    made.on_progress(1)
    made.on_success(INPUT, "out")
    made.on_error(INPUT, error)
    made.on_cancel(INPUT)
    await made.teardown()
    assert seen == [
        ("setup",),
        ("on_start", INPUT),
        ("on_progress", 1),
        ("on_success", INPUT, "out"),
        ("on_error", INPUT, error),
        ("on_cancel", INPUT),
        ("teardown",),
    ]
    quiet = tool()
    await quiet.setup()
    quiet.on_start(INPUT)
    await quiet.teardown()


def test_a_tool_adapts_to_its_environment_and_stays_as_it_is_elsewhere() -> None:
    made = tool(for_environment=lambda e: {"is_read_only": e.trusted_workspace})
    assert not made.is_read_only(INPUT)
    assert made.for_environment(Environment(trusted_workspace=True)).is_read_only(INPUT)
    assert not made.is_read_only(INPUT)
    plain = tool()
    assert plain.for_environment(Environment(trusted_workspace=True)) is plain


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("max_result_size", 0),
        ("max_result_size", "many"),
        ("max_retries", -1),
        ("max_retries", 6),
        ("max_retries", True),
        ("requires_user_interaction", "yes"),
        ("defer_loading", 1),
        ("interrupt_behavior", "ignore"),
        ("timeout", 0),
    ],
)
def test_a_value_that_cannot_be_one_is_refused_at_definition(name: str, wrong: object) -> None:
    with pytest.raises(ToolDefinitionError, match=name):
        tool(**{name: wrong})


def test_validate_input_takes_part_in_parsing() -> None:
    with pytest.raises(InvalidInput, match="too deep"):
        tool(validate_input=lambda i: "too deep" if i.depth > 3 else None).parse(
            {"path": "x", "depth": 4}
        )
