"""Each line marked ``# E`` must be an error for mypy --strict, and no other line."""

from __future__ import annotations

from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.tool import Command, Context, ToolInput, build_tool


class CountInput(ToolInput):
    path: str


class OtherInput(ToolInput):
    other: int


def count(tool_input: CountInput, ctx: Context[None]) -> int:
    return 1


def text_flag(tool_input: CountInput) -> str:
    return "yes"


def other_flag(tool_input: OtherInput) -> bool:
    return True


Count = build_tool(name="Count", description="Count.", input_schema=CountInput, call=count)
build_tool(name="A", description="A", input_schema=OtherInput, call=count)  # E
build_tool(name="A", description="A", input_schema=CountInput)  # E
build_tool(name="A", description="A", input_schema=CountInput, call=count, is_readonly=True)  # E
build_tool(name="A", description="A", input_schema=CountInput, call=count, is_read_only="y")  # E
build_tool(name="A", description="A", input_schema=CountInput, call=count, needs_sandbox=text_flag)  # E
build_tool(name="A", description="A", input_schema=CountInput, call=count, needs_sandbox=other_flag)  # E
build_tool(name="A", description="A", input_schema=CountInput, command=lambda i: "ls")  # E
build_tool(name=3, description="A", input_schema=CountInput, call=count)  # E
build_tool(name="A", description="A", input_schema=CountInput, command=lambda i: Command("ls", cwd=3))  # E


async def use(box: Toolbox) -> str:
    await box.call(Count, OtherInput(other=1))  # E
    result = await box.call(Count, CountInput(path="."))
    return result.output  # E
