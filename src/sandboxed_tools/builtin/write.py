"""Write: make a file, or replace its whole content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from sandboxed_tools.builtin.edit import written_for_model, written_for_terminal
from sandboxed_tools.builtin.host_work import current_folder, run_stoppable
from sandboxed_tools.tool import Context, ToolInput, build_tool
from sandboxed_tools.workspace import EditJournal, FileStateCache, WorkspaceRoot
from sandboxed_tools.workspace.write_file import Written, write_file

__all__ = ["Write", "WriteInput"]


class WriteInput(ToolInput):
    """Input of the Write tool."""

    file_path: Path = Field(description="The file; one that exists must have been read before.")
    content: str = Field(description="The whole new content.")


async def _write(tool_input: WriteInput, ctx: Context[Any]) -> Written:
    root = ctx.resource(WorkspaceRoot)
    cache = ctx.resource(FileStateCache)
    journal = ctx.resource(EditJournal)
    cwd = current_folder(ctx, root)
    path, content = tool_input.file_path, tool_input.content
    return await run_stoppable(
        lambda _: write_file(root, path, content, cache=cache, cwd=cwd, journal=journal)
    )


Write = build_tool(
    name="Write",
    description="Make a file of the workspace, or replace the whole content of one read before.",
    input_schema=WriteInput,
    call=_write,
    is_read_only=False,
    needs_sandbox=False,
    is_concurrency_safe=False,
    is_idempotent=False,
    is_destructive=True,
    is_reversible=True,
    is_open_world=False,
    permission_pattern=lambda tool_input: str(tool_input.file_path),
    paths_written=lambda tool_input: (tool_input.file_path,),
    render_use=lambda tool_input: f"Write: {tool_input.file_path}",
    render_result=written_for_terminal,
    to_model_text=written_for_model,
    examples=({"file_path": "notes/today.md", "content": "Hello\n"},),
    defaults=1,
)
