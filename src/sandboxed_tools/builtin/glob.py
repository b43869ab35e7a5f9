"""Glob: the files whose names match a pattern, newest first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from sandboxed_tools.builtin.host_work import current_folder, run_stoppable
from sandboxed_tools.tool import Context, ToolInput, build_tool, for_model
from sandboxed_tools.workspace import FindOptions, FoundFiles, WorkspaceRoot, find_files
from sandboxed_tools.workspace.spelling import one_line_name

__all__ = ["Glob", "GlobInput"]


class GlobInput(ToolInput):
    """Input of the Glob tool."""

    pattern: str = Field(
        min_length=1,
        description="The pattern, relative to path: **/*.py, src/{a,b}/*.[ch], **/test_?.txt, "
        "!**/*.log for everything else.",
    )
    path: Path | None = Field(
        default=None, description="The folder to search; the current one when omitted."
    )
    hidden: bool = Field(default=False, description="Wildcards match names with a leading dot.")
    gitignore: bool = Field(default=False, description="Leave out what .gitignore files name.")


async def _find(tool_input: GlobInput, ctx: Context[Any]) -> FoundFiles:
    root = ctx.resource(WorkspaceRoot)
    cwd = current_folder(ctx, root)
    return await run_stoppable(
        lambda is_cancelled: find_files(
            root,
            tool_input.pattern,
            path=tool_input.path or ".",
            cwd=cwd,
            options=FindOptions(
                hidden=tool_input.hidden, gitignore=tool_input.gitignore, is_cancelled=is_cancelled
            ),
        )
    )


def _rest(found: FoundFiles) -> str:
    """What the list of names does not say by itself."""
    notes: list[str] = []
    if found.total > len(found.names):
        notes.append(f"the newest {len(found.names)} of {found.total} files")
    if found.stopped is not None:
        why = {"entries": "too many entries", "time": "out of time"}.get(found.stopped, "cancelled")
        notes.append(f"the search stopped early: {why}; narrow the pattern or the path")
    if found.unreadable:
        notes.append(f"{found.unreadable} folders could not be searched")
    return f"[{'; '.join(notes)}]" if notes else ""


def _lines(found: FoundFiles) -> str:
    return "\n".join(one_line_name(name) for name in found.names) or "No files found."


def _model_text(found: FoundFiles) -> str:
    shown = for_model(_lines(found), source="Glob") if found.names else _lines(found)
    return "\n".join(part for part in (shown, _rest(found)) if part)


Glob = build_tool(
    name="Glob",
    description="Find files by pattern matching, newest first; at most 100 names.",
    input_schema=GlobInput,
    call=_find,
    is_read_only=True,
    is_concurrency_safe=True,
    is_idempotent=True,
    is_open_world=False,
    permission_pattern=lambda tool_input: tool_input.pattern,
    paths_read=lambda tool_input: (tool_input.path or Path(),),
    render_use=lambda tool_input: f"Glob: {tool_input.pattern}",
    render_result=lambda found: "\n".join(p for p in (_lines(found), _rest(found)) if p),
    to_model_text=_model_text,
    examples=({"pattern": "**/*.py"}, {"pattern": "*.{c,h}", "path": "src", "gitignore": True}),
    defaults=1,
)
