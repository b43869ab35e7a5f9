"""Must pass mypy --strict: what a typed user writes."""

from __future__ import annotations

from typing import assert_type

from sandboxed_tools.runtime import CallResult, Toolbox
from sandboxed_tools.tool import Command, Context, ExecResult, Tool, ToolInput, build_tool


class CountInput(ToolInput):
    path: str
    depth: int = 1


async def count(tool_input: CountInput, ctx: Context[str]) -> int:
    ctx.progress("half-way")
    return tool_input.depth


def names(tool_input: CountInput, ctx: Context[None]) -> list[str]:
    return [tool_input.path]


Count = build_tool(
    name="Count",
    description="Count.",
    input_schema=CountInput,
    call=count,
    is_read_only=True,
    is_concurrency_safe=lambda tool_input: tool_input.depth < 3,
)
Names = build_tool(name="Names", description="Name.", input_schema=CountInput, call=names)
Echo = build_tool(
    name="Echo",
    description="Echo.",
    input_schema=CountInput,
    command=lambda tool_input: Command(("echo", tool_input.path)),
)
Size = build_tool(
    name="Size",
    description="Size.",
    input_schema=CountInput,
    command=lambda tool_input: Command(("du", tool_input.path)),
    map_result=lambda result: len(result.stdout),
)
assert_type(Count, Tool[CountInput, int, str])
assert_type(Names, Tool[CountInput, list[str], None])
assert_type(Echo, Tool[CountInput, ExecResult, None])
assert_type(Size, Tool[CountInput, int, None])


async def use(box: Toolbox) -> None:
    result = await box.call(Count, CountInput(path="."))
    assert_type(result, CallResult[int])
    assert_type((await box.call(Names, {"path": "."})).output, list[str])
