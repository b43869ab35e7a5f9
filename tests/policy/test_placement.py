"""Placement: one pure function, in a fixed order, with reasons."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from sandboxed_tools.policy import Policy, decide_placement
from sandboxed_tools.tool import AnyTool, Command, ToolInput, build_tool


class Nothing(ToolInput):
    pass


def python_tool(**stated: Any) -> AnyTool:
    return build_tool(
        name="Py", description="x", input_schema=Nothing, call=lambda _, ctx: None, **stated
    )


def command_tool(**stated: Any) -> AnyTool:
    return build_tool(
        name="Cmd",
        description="x",
        input_schema=Nothing,
        command=lambda _: Command(("true",)),
        **stated,
    )


def codes(tool: AnyTool, policy: Policy | None = None, *, trusted: bool = True) -> tuple[str, ...]:
    placement = decide_placement(tool, tool.flags(Nothing()), policy or Policy(), trusted=trusted)
    return (placement.where, *(reason.code for reason in placement.reasons))


def test_a_trusted_python_tool_that_asks_for_nothing_runs_on_the_host() -> None:
    assert codes(python_tool())[0] == "host"


def test_a_tool_that_needs_the_sandbox_is_contained_and_that_is_the_first_reason() -> None:
    assert codes(python_tool(needs_sandbox=True), trusted=False)[:2] == (
        "container",
        "needs_sandbox",
    )


def test_a_command_that_is_not_read_only_is_contained_whatever_else_is_stated() -> None:
    assert codes(command_tool(needs_sandbox=False))[:2] == ("container", "command_not_read_only")
    assert codes(command_tool(is_read_only=True))[0] == "host"


def test_the_policy_contains_everything_and_takes_trust_away() -> None:
    assert codes(python_tool(), Policy(sandbox="always"))[:2] == ("container", "policy_always")
    assert codes(python_tool(), Policy(untrusted=frozenset({"Py"})))[:2] == (
        "container",
        "not_trusted",
    )


def test_an_untrusted_tool_is_contained() -> None:
    assert codes(python_tool(is_read_only=True), trusted=False) == ("container", "not_trusted")


def test_a_fault_of_a_flag_function_is_recorded_in_the_placement() -> None:
    found = codes(command_tool(is_read_only=lambda _: 1))
    assert found[0] == "container"
    assert "flag_fault" in found


@pytest.mark.parametrize("runs_commands", [False, True])
def test_no_combination_reaches_the_host_against_the_order(runs_commands: bool) -> None:
    make = command_tool if runs_commands else python_tool
    for needs, read_only, always, trusted in itertools.product((False, True), repeat=4):
        tool = make(needs_sandbox=needs, is_read_only=read_only)
        policy = Policy(sandbox="always" if always else "auto")
        placement = decide_placement(tool, tool.flags(Nothing()), policy, trusted=trusted)
        host = not needs and (read_only or not runs_commands) and not always and trusted
        assert placement.where == ("host" if host else "container")
        assert placement.reasons
        assert placement == decide_placement(tool, tool.flags(Nothing()), policy, trusted=trusted)
