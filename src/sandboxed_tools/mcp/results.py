"""Results of calls as MCP has them: text for the model, structured content, facts in ``_meta``."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import mcp_types as types

from sandboxed_tools.errors import InvalidInput, SandboxedToolsError
from sandboxed_tools.mcp.artifacts import KeptArtifact
from sandboxed_tools.mcp.resources import artifact_uri, result_uri
from sandboxed_tools.mcp.sessions import Kept
from sandboxed_tools.runtime import CallResult
from sandboxed_tools.tool import AnyTool, ExecResult, for_terminal
from sandboxed_tools.tool.vendor_schemas import gives_exec_result

__all__ = ["error_result", "tool_result"]

META: Final = "sandboxed-tools/"
MAX_STREAM_CHARS: Final = 65_536
"""Of each stream in structured content: clients give that to a model as well."""
MAX_PICTURES: Final = 8
MAX_PICTURES_BYTES: Final = 8 * 1024 * 1024
"""Of all pictures of one result; the rest are links."""


def tool_result(
    result: CallResult[Any], *, tool: AnyTool | None, kept: Kept
) -> types.CallToolResult:
    """A finished call of ``tool``, and what the session keeps of it.

    It is an error when its command was ended for it (a limit, a signal); a command that ended by
    itself with another code than 0 is a result.
    """
    facts = _facts(result)
    if tool is not None and gives_exec_result(tool) and result.exec is not None:
        structured = {**_exec(result.exec), **facts}
    else:
        structured = {"text": result.text, **facts}
    meta = {f"{META}{name.replace('_', '-')}": value for name, value in facts.items()}
    if result.exec is not None:
        meta |= {
            f"{META}usage": _usage(result.exec),
            f"{META}changes": _changes(result.exec),
            f"{META}image": result.exec.image,
        }
    return types.CallToolResult(
        content=[
            types.TextContent(text=result.text),
            *_artifacts(kept.artifacts),
            *_link(result, kept),
        ],
        structured_content=structured,
        is_error=result.exec is not None and result.exec.status != "exited",
        _meta=meta,
    )


def error_result(error: SandboxedToolsError) -> types.CallToolResult:
    """A call that was refused or failed, told so that a model can act on it."""
    facts: dict[str, Any] = {"code": error.code, "message": error.for_model}
    if isinstance(error, InvalidInput):
        facts["fields"] = [dataclasses.asdict(field) for field in error.fields]
    return types.CallToolResult(
        content=[types.TextContent(text=error.for_model)],
        is_error=True,
        _meta={f"{META}error": facts},
    )


def _artifacts(artifacts: Sequence[KeptArtifact]) -> list[types.ContentBlock]:
    """Pictures as pictures, as far as they are few and small; anything else as a link."""
    blocks: list[types.ContentBlock] = []
    left = MAX_PICTURES_BYTES
    for item in artifacts:
        if item.picture is not None and len(item.data) <= left and len(blocks) < MAX_PICTURES:
            left -= len(item.data)
            data = base64.b64encode(item.data).decode("ascii")
            blocks.append(types.ImageContent(data=data, mime_type=item.picture))
        else:
            blocks.append(
                types.ResourceLink(
                    uri=artifact_uri(item.key),
                    name=item.name,
                    description="A file that the call gave back.",
                    mime_type=item.media_type,
                    size=len(item.data),
                )
            )
    return blocks


def _link(result: CallResult[Any], kept: Kept) -> list[types.ContentBlock]:
    if kept.whole is None:
        return []
    return [
        types.ResourceLink(
            uri=result_uri(result.call_id),
            name=f"{result.tool} {result.call_id}",
            description="The whole result.",
            mime_type="text/plain",
            size=kept.whole.stat().st_size,
        )
    ]


def _facts(result: CallResult[Any]) -> dict[str, Any]:
    return {
        "call_id": result.call_id,
        "placement": result.placement.where,
        "reasons": [
            {"code": reason.code, "message": for_terminal(reason.message, one_line=True)}
            for reason in result.placement.reasons
        ],
        "duration_s": round(result.duration_s, 6),
    }


def _exec(result: ExecResult) -> dict[str, Any]:
    return {
        "status": result.status,
        "exit_code": result.exit_code,
        "signal": result.signal,
        "stdout": _bounded(result.stdout_text),
        "stderr": _bounded(result.stderr_text),
        "truncated": result.truncated
        or max(len(result.stdout_text), len(result.stderr_text)) > MAX_STREAM_CHARS,
        "limits_hit": sorted(result.limits_hit),
        "usage": _usage(result),
        "changes": _changes(result),
        "image": result.image,
    }


def _usage(result: ExecResult) -> dict[str, Any]:
    return dataclasses.asdict(result.usage)


def _changes(result: ExecResult) -> dict[str, Any] | None:
    changes = result.changes
    if changes is None:
        return None
    names = ("decision", "id", "added", "modified", "deleted")
    return {name: getattr(changes, name) for name in names}


def _bounded(text: str) -> str:
    if len(text) <= MAX_STREAM_CHARS:
        return text
    half = MAX_STREAM_CHARS // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters cut …]\n{text[-half:]}"
