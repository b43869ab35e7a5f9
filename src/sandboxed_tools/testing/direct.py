"""Running a tool's own work in a test, without a Toolbox around it."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from sandboxed_tools.runtime.call_context import CallContext
from sandboxed_tools.tool import Command, ExecResult, Tool, ToolInput
from sandboxed_tools.tool.context import issue_ticket, revoke

__all__ = ["call_directly"]

InputT = TypeVar("InputT", bound=ToolInput)
OutputT = TypeVar("OutputT")
ProgressT = TypeVar("ProgressT")


async def call_directly(
    tool: Tool[InputT, OutputT, ProgressT],
    raw_input: InputT | Mapping[str, Any],
    *,
    execute: Callable[[Command], Awaitable[ExecResult]] | None = None,
    resources: Iterable[object] = (),
    cwd: Path | None = None,
    on_progress: Callable[[ProgressT], None] | None = None,
) -> OutputT:
    """Validate the input and run the tool's own work in this process. For tests of a tool alone.

    Nothing places, authorizes, bounds or records the call: never hand it what a model wrote.

    Args:
        tool: the tool under test.
        raw_input: as ``Toolbox.call`` takes it.
        execute: runs the command of a tool that is built with ``command=``; it may return an
            ``ExecResult`` of the test's own making. Nothing is run without it.
        resources: what the Toolbox would keep for the tool, found by type.
        cwd: the session's current directory.
        on_progress: called with each progress value.

    Raises:
        InvalidInput: nothing of the tool's work has run.
        NotAuthorized: the tool runs commands and there is no ``execute``, or it asks for a
            resource that is not there.
        Exception: whatever the tool's work raises, as it is.
    """
    # One object for ticket and call: parsing makes a new one.
    tool_input = tool.parse(raw_input)
    ticket = issue_ticket(tool, tool_input)
    context = CallContext(
        ticket=ticket,
        call_id=uuid.uuid4().hex[:12],
        cwd=cwd,
        resources={type(item): item for item in resources},
        execute=execute,
        on_progress=on_progress,
    )
    try:
        return await tool.call(tool_input, context)
    finally:
        revoke(ticket)
