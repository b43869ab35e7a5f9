"""A tool's work can be tested alone, without a Toolbox, and still not past its own schema."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sandboxed_tools import Bash, Command, Context, ExecResult, InvalidInput, ToolInput, build_tool
from sandboxed_tools.errors import NotAuthorized
from sandboxed_tools.testing import call_directly
from sandboxed_tools.tool.context import Ticket

pytestmark = pytest.mark.anyio


class Pair(ToolInput):
    one: int
    two: int = 1


@dataclass(frozen=True)
class Unit:
    name: str


tickets: list[Ticket] = []


def _add(pair: Pair, ctx: Context[str]) -> str:
    tickets.append(ctx.ticket)
    ctx.progress(f"adding {pair.two}")
    return f"{pair.one + pair.two} {ctx.resource(Unit).name}"


Add = build_tool(name="Add", description="Add two numbers", input_schema=Pair, call=_add)


async def test_the_work_runs_with_validated_input_resources_and_progress() -> None:
    seen: list[str] = []
    output = await call_directly(
        Add, {"one": 2, "two": 3}, resources=(Unit("m"),), on_progress=seen.append
    )
    assert output == "5 m"
    assert seen == ["adding 3"]


async def test_an_input_model_is_taken_as_well() -> None:
    assert await call_directly(Add, Pair(one=1), resources=(Unit("s"),)) == "2 s"


@pytest.mark.parametrize("raw", [{"one": "many"}, {"one": 1, "three": 3}, [], None])
async def test_bad_input_is_refused_before_the_work(raw: object) -> None:
    before = len(tickets)
    with pytest.raises(InvalidInput):
        await call_directly(Add, raw)  # type: ignore[arg-type]
    assert len(tickets) == before


async def test_what_the_work_raises_comes_as_it_is() -> None:
    with pytest.raises(NotAuthorized, match="no Unit"):
        await call_directly(Add, {"one": 1})


async def test_the_ticket_of_a_direct_call_is_spent_afterwards() -> None:
    await call_directly(Add, {"one": 1}, resources=(Unit("m"),))

    class Forged:
        ticket = tickets[-1]

    with pytest.raises(NotAuthorized):
        await Add.call(Pair(one=1), Forged())  # type: ignore[arg-type]


async def test_a_tool_of_commands_runs_nothing_unless_the_test_says_how() -> None:
    with pytest.raises(NotAuthorized):
        await call_directly(Bash, {"command": "touch /tmp/must-not-be"})


async def test_the_test_answers_for_the_command() -> None:
    asked: list[Command] = []

    async def execute(command: Command) -> ExecResult:
        asked.append(command)
        return ExecResult("exited", exit_code=3, stdout=b"made up\n")

    output = await call_directly(Bash, {"command": "make test"}, execute=execute)
    assert output.exit_code == 3
    assert asked[0].argv[-1] == "make test"
