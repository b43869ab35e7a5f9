"""Grep: lines that match a regular expression."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from sandboxed_tools.builtin.host_work import current_folder, run_stoppable
from sandboxed_tools.builtin.ripgrep import grep_with_ripgrep, ripgrep_path
from sandboxed_tools.errors import PathRefused
from sandboxed_tools.tool import Context, ToolInput, build_tool, for_model, for_terminal
from sandboxed_tools.workspace import Place, WorkspaceRoot
from sandboxed_tools.workspace.grep_files import grep_file, grep_tree
from sandboxed_tools.workspace.grep_result import FileMatches, GrepOptions, GrepResult, OutputMode
from sandboxed_tools.workspace.regex import SearchPattern, compile_search
from sandboxed_tools.workspace.spelling import Parts, one_line_name

__all__ = ["Grep", "GrepInput"]


class GrepInput(ToolInput):
    """Input of the Grep tool."""

    pattern: str = Field(
        min_length=1,
        description="A regular expression (no look-around, no back-references), line by line.",
    )
    path: Path | None = Field(
        default=None, description="The folder or file to search; the current one when omitted."
    )
    glob: str | None = Field(
        default=None, min_length=1, description="Only files whose path matches: *.py, src/**, !*.md"
    )
    type: str | None = Field(default=None, description="Only files of a type: py, js, rust, …")
    output_mode: OutputMode = Field(
        default="files_with_matches",
        description="files_with_matches: names; content: lines; count: matching lines by file.",
    )
    ignore_case: bool = Field(default=False, strict=True, description="Letter case is ignored.")
    literal: bool = Field(
        default=False, strict=True, description="The pattern is a text that stands for itself."
    )
    context: int = Field(
        default=0, ge=0, le=50, strict=True, description="Lines shown around each match."
    )
    before: int | None = Field(default=None, ge=0, le=50, strict=True, description="Lines before.")
    after: int | None = Field(default=None, ge=0, le=50, strict=True, description="Lines after.")
    limit: int = Field(
        default=200, ge=1, le=2000, strict=True, description="Matching lines, or files, at most."
    )
    hidden: bool = Field(default=False, strict=True, description="Files with a leading dot, too.")
    gitignore: bool = Field(
        default=True, strict=True, description="Leave out what .gitignore and .ignore name."
    )


def _options(tool_input: GrepInput) -> GrepOptions:
    before, after = tool_input.before, tool_input.after
    return GrepOptions(
        mode=tool_input.output_mode,
        glob=tool_input.glob,
        file_type=tool_input.type,
        before=tool_input.context if before is None else before,
        after=tool_input.context if after is None else after,
        max_results=tool_input.limit,
        hidden=tool_input.hidden,
        gitignore=tool_input.gitignore,
    )


async def _grep(tool_input: GrepInput, ctx: Context[Any]) -> GrepResult:
    root = ctx.resource(WorkspaceRoot)
    cwd = current_folder(ctx, root)
    pattern = compile_search(
        tool_input.pattern, ignore_case=tool_input.ignore_case, literal=tool_input.literal
    )
    options = _options(tool_input)
    path = tool_input.path or Path()
    place = await run_stoppable(lambda _: _folder(root, path, cwd))
    if place is None:
        return await run_stoppable(
            lambda stop: _one_file(root, path, cwd, pattern, replace(options, is_cancelled=stop))
        )
    # Only the workspace itself is a tree that a host run may start in.
    program = await run_stoppable(lambda _: ripgrep_path()) if place.is_writable else None
    if program is not None:
        found = await grep_with_ripgrep(program, root, place, pattern, options)
        if found is not None:
            return found
    return await run_stoppable(
        lambda stop: grep_tree(root, place, pattern, replace(options, is_cancelled=stop))
    )


def _folder(root: WorkspaceRoot, path: Path, cwd: Parts) -> Place | None:
    """The place of a folder; ``None`` when the path is that of a file."""
    try:
        place, fd = root.open_folder(path, cwd=cwd)
    except PathRefused as error:
        if error.reason == "not_folder":
            return None
        raise
    os.close(fd)
    return place


def _one_file(
    root: WorkspaceRoot, path: Path, cwd: Parts, pattern: SearchPattern, options: GrepOptions
) -> GrepResult:
    place, file = root.open_file(path, cwd=cwd)
    with file:
        return grep_file(place, file, pattern, options)


def _rest(found: GrepResult) -> list[str]:
    notes: list[str] = []
    if found.stopped == "limit":
        notes.append("stopped at the limit: narrow the search, or raise limit")
    elif found.stopped is not None:
        notes.append(f"stopped early ({found.stopped}): narrow the search")
    if found.unreadable:
        notes.append(f"{found.unreadable} files or folders could not be searched")
    return notes


def _lines(found: GrepResult) -> str:
    if found.mode == "files_with_matches":
        return "\n".join(one_line_name(each.path) for each in found.files)
    if found.mode == "count":
        return "\n".join(f"{one_line_name(each.path)}:{each.count}" for each in found.files)
    return "\n".join(_content(each) for each in found.files)


def _content(found: FileMatches) -> str:
    shown: list[str] = [one_line_name(found.path)]
    previous = 0
    for line in found.lines:
        if previous and line.number > previous + 1:
            shown.append("   --")
        previous = line.number
        shown.append(f"{line.number:6}{':' if line.is_match else '-'}{line.text}")
    return "\n".join(shown)


def _model_text(found: GrepResult) -> str:
    if not found.files:
        return "\n".join(["No matches found.", *_rest(found)])
    notes = _rest(found)
    body = for_model(_lines(found), source="Grep", max_chars=200_000)
    return "\n".join([body, *([f"[{'; '.join(notes)}]"] if notes else [])])


def _terminal_text(found: GrepResult) -> str:
    return "\n".join([for_terminal(_lines(found)) or "No matches found.", *_rest(found)])


Grep = build_tool(
    name="Grep",
    description="Search the contents of files with a regular expression.",
    input_schema=GrepInput,
    call=_grep,
    is_read_only=True,
    is_concurrency_safe=True,
    is_idempotent=True,
    is_open_world=False,
    max_result_size=210_000,
    permission_pattern=lambda tool_input: tool_input.pattern,
    paths_read=lambda tool_input: (tool_input.path or Path(),),
    render_use=lambda tool_input: f"Grep: {tool_input.pattern}",
    render_result=_terminal_text,
    to_model_text=_model_text,
    examples=(
        {"pattern": "TODO"},
        {"pattern": "def \\w+", "type": "py", "output_mode": "content", "context": 2},
    ),
    defaults=1,
)
