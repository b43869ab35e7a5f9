"""What a client may read: what its own calls gave back and changed. Nothing else.

A URI names something that the session itself remembers by its id. No part of it is ever a path.
"""

from __future__ import annotations

import base64
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
from sandboxed_tools.workspace.spelling import one_line_name

if TYPE_CHECKING:
    from sandboxed_tools.mcp.artifacts import KeptArtifact
    from sandboxed_tools.mcp.sessions import Session

__all__ = [
    "TEMPLATES",
    "artifact_uri",
    "changes_uri",
    "list_resources",
    "read_resource",
    "result_uri",
]

MAX_DIFF_CHARS: Final = 1024 * 1024
MAX_RESULT_BYTES: Final = 32 * 1024 * 1024
Contents = types.TextResourceContents | types.BlobResourceContents
_URI: Final = re.compile(
    r"sandboxed-tools://(changes|results|artifacts)/([0-9a-f]{8,32}(?:-[0-9]{1,3})?)"
)

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
    types.ResourceTemplate(
        uri_template="sandboxed-tools://artifacts/{call_id}-{number}",
        name="artifact",
        description="A file that a call of this session gave back, as it is.",
    ),
)


def result_uri(call_id: str) -> str:
    return f"sandboxed-tools://results/{call_id}"


def artifact_uri(key: str) -> str:
    return f"sandboxed-tools://artifacts/{key}"


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
    artifacts = [
        types.Resource(
            uri=artifact_uri(item.key),
            name=item.name,
            mime_type=item.media_type,
            size=len(item.data),
        )
        for item in session.artifacts.all
    ]
    return [*changes, *results, *artifacts]


async def read_resource(session: Session, uri: str) -> Contents | None:
    """A resource of this client; ``None`` when there is none of this URI, or not any more."""
    found = _URI.fullmatch(uri)
    if found is None:
        return None
    kind, name = found[1], found[2]
    if kind == "artifacts":
        return _artifact(session.artifacts.get(name), uri)
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


def _artifact(item: KeptArtifact | None, uri: str) -> Contents | None:
    if item is None:
        return None
    if item.media_type == "text/plain":
        text = item.data.decode("utf-8")
        return types.TextResourceContents(uri=uri, mime_type=item.media_type, text=text)
    blob = base64.b64encode(item.data).decode("ascii")
    return types.BlobResourceContents(uri=uri, mime_type=item.media_type, blob=blob)


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
        path = one_line_name(item.change.path)
        note = f" ({for_terminal(item.note, one_line=True)})" if item.note else ""
        yield f"{item.change.action} {path}{note}\n{for_terminal(item.text)}"


def _result(path: Path) -> str:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        return file.read(MAX_RESULT_BYTES).decode("utf-8", "replace")
