"""The workspace of a client: one of its roots, if the operator named that folder or one above it.

A root is what a client says, so it is data: it can choose among what the operator opened, and widen
nothing.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote_to_bytes, urlsplit

import anyio.to_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from pydantic import ValidationError

__all__ = ["choose_workspace", "path_of_root", "roots_of"]

log = logging.getLogger("sandboxed_tools.mcp")

MAX_ROOTS: Final = 32
ROOTS_TIMEOUT_S: Final = 5.0


async def roots_of(ctx: ServerRequestContext[Any, Any]) -> list[str]:
    """The URIs of the client's roots; none when it has none, fails, or takes over five seconds."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.roots is None or not ctx.session.can_send_request:
        return []
    try:
        answer = await ctx.session.send_request(
            types.ListRootsRequest(),
            types.ListRootsResult,
            request_read_timeout_seconds=ROOTS_TIMEOUT_S,
            metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
        )
    except (MCPError, ValidationError, TimeoutError) as error:
        log.warning("the client's roots are not known: %s", type(error).__name__)
        return []
    return [str(root.uri) for root in answer.roots[:MAX_ROOTS]]


async def choose_workspace(roots: Iterable[str], allowed: Sequence[Path]) -> Path | None:
    """The first root at or below an allowed folder, with all links resolved; else the first allowed
    folder. ``None`` when nothing is allowed."""
    wanted = tuple(roots)
    return await anyio.to_thread.run_sync(_choose, wanted, tuple(allowed))


def _choose(roots: tuple[str, ...], allowed: tuple[Path, ...]) -> Path | None:
    real = [Path(os.path.realpath(folder)) for folder in allowed]
    for uri in roots:
        path = path_of_root(uri)
        if path is None:
            continue
        try:
            found = path.resolve(strict=True)
        except (OSError, RuntimeError):
            continue
        if found.is_dir() and any(found.is_relative_to(folder) for folder in real):
            return found
    return real[0] if real else None


def path_of_root(uri: str) -> Path | None:
    """The path that a ``file:`` URI of this host names; ``None`` for anything else (RFC 8089)."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    if parts.query or parts.fragment:
        return None
    raw = unquote_to_bytes(parts.path)
    if not raw.startswith(b"/") or b"\0" in raw or len(raw) > 4096:
        return None
    return Path(os.fsdecode(raw))
