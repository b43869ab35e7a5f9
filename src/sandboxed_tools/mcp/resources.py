"""What a client may read: long results of its own calls, and its own change sets. Nothing else.

A URI names something that the session itself remembers by its id. No part of it is ever a path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import anyio.to_thread
import mcp_types as types

from sandboxed_tools.errors import ChangeSetNotFound
from sandboxed_tools.tool import for_terminal
from sandboxed_tools.workspace import ChangeStore, diff_set

if TYPE_CHECKING:
    from sandboxed_tools.mcp.sessions import Session

__all__ = ["TEMPLATES", "changes_uri", "list_resources", "read_resource", "result_uri"]

MAX_DIFF_CHARS: Final = 1024 * 1024
MAX_RESULT_BYTES: Final = 32 * 1024 * 1024
_URI: Final = re.compile(r"sandboxed-tools://(changes|results)/([0-9a-f]{8,32})")

TEMPLATES: Final = (
    types.ResourceTemplate(
        uri_template="sandboxed-tools://changes/{id}",
        name="change set",
        description="What a call of this session changed in the workspace, as a diff.",
        mime_type="text/x-diff",
    ),
    types.ResourceTemplate(
        uri_template="sandboxed-tools://results/{call_id}",
        name="result",
        description="The whole of a result of this session that was too long for a model.",
        mime_type="text/plain",
    ),
)


def result_uri(call_id: str) -> str:
    return f"sandboxed-tools://results/{call_id}"


def changes_uri(change_set_id: str) -> str:
    return f"sandboxed-tools://changes/{change_set_id}"


def list_resources(session: Session) -> list[types.Resource]:
    """Everything that this client can read, in the order in which it came to be."""
    changes = [
        types.Resource(
            uri=changes_uri(name),
            name=f"changes {name}",
            description=f"Made by the call {call_id}.",
            mime_type="text/x-diff",
        )
        for name, call_id in session.change_sets.items()
    ]
    results = [
        types.Resource(uri=result_uri(name), name=f"result {name}", mime_type="text/plain")
        for name in session.results
    ]
    return [*changes, *results]


async def read_resource(session: Session, uri: str) -> types.TextResourceContents | None:
    """A resource of this client; ``None`` when there is none of this URI, or not any more."""
    found = _URI.fullmatch(uri)
    if found is None:
        return None
    kind, name = found[1], found[2]
    mime: Literal["text/x-diff", "text/plain"] = "text/x-diff"
    try:
        if kind == "changes" and name in session.change_sets:
            text = await anyio.to_thread.run_sync(_diff, name)
        elif kind == "results" and name in session.results:
            mime = "text/plain"
            text = await anyio.to_thread.run_sync(_result, session.results[name])
        else:
            return None
    except (ChangeSetNotFound, OSError):
        return None
    return types.TextResourceContents(uri=uri, mime_type=mime, text=text)


def _diff(name: str) -> str:
    store = ChangeStore()
    change_set = store.get(name)
    parts = [f"{change_set.id}: {change_set.summary()} ({change_set.status})\n"]
    size = 0
    for part in _shown(store, name):
        size += len(part)
        if size > MAX_DIFF_CHARS:
            parts.append("[… the rest is not shown …]\n")
            break
        parts.append(part)
    return "".join(parts)


def _shown(store: ChangeStore, name: str) -> Iterator[str]:
    for item in diff_set(store, store.get(name)):
        path = for_terminal(os.fsdecode(item.change.path), one_line=True)
        note = f" ({for_terminal(item.note, one_line=True)})" if item.note else ""
        yield f"{item.change.action} {path}{note}\n{for_terminal(item.text)}"


def _result(path: Path) -> str:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        return file.read(MAX_RESULT_BYTES).decode("utf-8", "replace")
