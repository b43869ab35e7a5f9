"""Edit: replace a text in a file with another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from sandboxed_tools.builtin.host_work import current_folder, run_stoppable
from sandboxed_tools.tool import Context, ToolInput, build_tool, for_model, for_terminal
from sandboxed_tools.workspace import EditJournal, FileStateCache, WorkspaceRoot
from sandboxed_tools.workspace.edit_file import EditRequest, edit_file
from sandboxed_tools.workspace.spelling import one_line_name
from sandboxed_tools.workspace.write_file import Written

__all__ = ["Edit", "EditInput", "written_for_model", "written_for_terminal"]


class EditInput(ToolInput):
    """Input of the Edit tool."""

    file_path: Path = Field(description="The file; it must have been read in this session.")
    old_string: str = Field(
        description="The text to replace, exactly as in the file, with plain line feeds; it must "
        "occur once. Empty to make a new file."
    )
    new_string: str = Field(description="The text to put in its place.")
    replace_all: bool = Field(
        default=False, strict=True, description="Replace every occurrence instead of the only one."
    )


async def _edit(tool_input: EditInput, ctx: Context[Any]) -> Written:
    root = ctx.resource(WorkspaceRoot)
    cache = ctx.resource(FileStateCache)
    journal = ctx.resource(EditJournal)
    cwd = current_folder(ctx, root)
    request = EditRequest(tool_input.old_string, tool_input.new_string, tool_input.replace_all)
    # Not stopped half-way by a cancellation: the write is one step, and is waited for.
    return await run_stoppable(
        lambda _: edit_file(
            root, tool_input.file_path, request, cache=cache, cwd=cwd, journal=journal
        )
    )


def _headline(written: Written) -> str:
    name = one_line_name(written.path)
    if written.is_new:
        return f"Made {name} ({written.size_bytes} bytes)."
    if written.replacements:
        places = "place" if written.replacements == 1 else "places"
        return f"Changed {name} in {written.replacements} {places}."
    return f"Wrote {name} ({written.size_bytes} bytes)."


def written_for_model(written: Written) -> str:
    """What a model is told of a written file: which, and the diff of what was there before."""
    if written.is_new or not written.diff:
        return _headline(written)
    return f"{_headline(written)}\n{for_model(written.diff, source='diff')}"


def written_for_terminal(written: Written) -> str:
    """What a person sees of a written file."""
    return for_terminal(f"{_headline(written)}\n{written.diff}")


Edit = build_tool(
    name="Edit",
    description=(
        "Replace a text in a file of the workspace that was read before. Encoding, line ends, mode "
        "and owner stay as they are; the answer is a diff."
    ),
    input_schema=EditInput,
    call=_edit,
    is_read_only=False,
    needs_sandbox=False,
    is_concurrency_safe=False,
    is_idempotent=False,
    is_destructive=True,
    is_reversible=True,
    is_open_world=False,
    permission_pattern=lambda tool_input: str(tool_input.file_path),
    paths_read=lambda tool_input: (tool_input.file_path,),
    paths_written=lambda tool_input: (tool_input.file_path,),
    render_use=lambda tool_input: f"Edit: {tool_input.file_path}",
    render_result=written_for_terminal,
    to_model_text=written_for_model,
    examples=({"file_path": "a.py", "old_string": "x = 1\n", "new_string": "x = 2\n"},),
    defaults=1,
)
