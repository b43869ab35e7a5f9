"""Read: lines of a text file with their numbers, an image, a PDF."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from sandboxed_tools.builtin.host_work import current_folder, run_stoppable
from sandboxed_tools.tool import Context, ToolInput, build_tool, for_model, for_terminal
from sandboxed_tools.workspace import FileStateCache, WorkspaceRoot
from sandboxed_tools.workspace.lines import LineBudget
from sandboxed_tools.workspace.read_file import (
    BinarySummary,
    MediaContent,
    ReadOptions,
    ReadResult,
    TextContent,
    read_file,
)
from sandboxed_tools.workspace.spelling import one_line_name

__all__ = ["Read", "ReadInput"]

MAX_TEXT_CHARS = 240_000
"""More than a read can bring: numbers and marks included, nothing is cut a second time."""


class ReadInput(ToolInput):
    """Input of the Read tool."""

    file_path: Path = Field(description="The file: relative, absolute, or below /workspace.")
    offset: int = Field(default=1, ge=1, strict=True, description="First line, counted from 1.")
    limit: int = Field(default=2000, ge=1, le=100_000, strict=True, description="Lines at most.")


async def _read(tool_input: ReadInput, ctx: Context[Any]) -> ReadResult:
    root = ctx.resource(WorkspaceRoot)
    cache = ctx.resource(FileStateCache)
    cwd = current_folder(ctx, root)
    return await run_stoppable(
        lambda is_cancelled: read_file(
            root,
            tool_input.file_path,
            cache=cache,
            cwd=cwd,
            options=ReadOptions(
                first_line=tool_input.offset,
                line_count=tool_input.limit,
                budget=LineBudget(is_cancelled=is_cancelled),
            ),
        )
    )


def _notes(text: TextContent) -> list[str]:
    notes: list[str] = []
    if text.total_lines == 0:
        notes.append("the file is empty")
    if text.stopped in ("scan", "time", "cancelled"):
        notes.append("reading stopped early: the file is too long to reach these lines")
    elif text.next_line is not None:
        total = "" if text.total_lines is None else f" of {text.total_lines}"
        notes.append(f"more lines{total} follow: read on with offset {text.next_line}")
    if text.encoding != "utf-8":
        notes.append(f"encoding {text.encoding}")
    if text.newline in ("crlf", "mixed"):
        notes.append(f"line ends {text.newline}; write a plain line feed, they are kept")
    if text.has_odd_bytes:
        notes.append("bytes that are not UTF-8 are shown as \\xNN")
    if text.has_changed:
        notes.append("the file changed while it was read; read it again before editing")
    return notes


def _summary(result: MediaContent | BinarySummary) -> str:
    if isinstance(result, MediaContent):
        return f"[{result.media_type}, {len(result.data)} bytes]"
    kind = result.media_type or "binary file"
    return f"[{kind}, {result.size_bytes} bytes, not shown; it begins with {result.head.hex(' ')}]"


def _model_text(result: ReadResult) -> str:
    if not isinstance(result, TextContent):
        return _summary(result)
    body = for_model(
        result.numbered(), source=f"Read {one_line_name(result.path)}", max_chars=MAX_TEXT_CHARS
    )
    notes = _notes(result)
    return "\n".join([body, *([f"[{'; '.join(notes)}]"] if notes else [])])


def _terminal_text(result: ReadResult) -> str:
    if not isinstance(result, TextContent):
        return _summary(result)
    return "\n".join([for_terminal(result.numbered()), *_notes(result)])


Read = build_tool(
    name="Read",
    description=(
        "Read a file of the workspace: numbered lines of text, from any line on; images and PDF "
        "files as such; a summary of other binary files."
    ),
    input_schema=ReadInput,
    call=_read,
    is_read_only=True,
    is_concurrency_safe=True,
    is_idempotent=True,
    is_open_world=False,
    max_result_size=MAX_TEXT_CHARS + 2000,
    permission_pattern=lambda tool_input: str(tool_input.file_path),
    paths_read=lambda tool_input: (tool_input.file_path,),
    render_use=lambda tool_input: f"Read: {tool_input.file_path}",
    render_result=_terminal_text,
    to_model_text=_model_text,
    examples=({"file_path": "README.md"}, {"file_path": "src/a.py", "offset": 100, "limit": 50}),
    defaults=1,
)
