"""A line of what a client sends: a message, or what to answer to something that is none."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

import mcp_types as types
from pydantic import ValidationError

__all__ = ["MAX_LINE_BYTES", "Complaint", "parsed"]

MAX_LINE_BYTES: Final = 32 * 1024 * 1024
"""More than the longest command takes as JSON."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a line that holds no message is answered with. A client may send errors of its own."""

    answer: types.JSONRPCError


def parsed(line: bytes | None) -> types.JSONRPCMessage | Complaint | None:
    """A message; for what is none, the complaint about it; nothing for an empty line."""
    if line is None:
        return _error(types.INVALID_REQUEST, f"A message has at most {MAX_LINE_BYTES} bytes.")
    if not line.strip():
        return None
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError:
        return _complaint(line)
    # The SDK takes a request whose id is neither text nor number for a notification, and would
    # leave whoever waits for its answer waiting.
    if isinstance(message, types.JSONRPCNotification) and b'"id"' in line:
        return _complaint(line) if "id" in json.loads(line) else message
    return message


def _complaint(line: bytes) -> Complaint:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return _error(types.PARSE_ERROR, "Parse error")
    return _error(
        types.INVALID_REQUEST,
        "Invalid request: not one JSON-RPC 2.0 message, in Unicode without lone surrogates.",
        identity=_identity(found),
    )


def _identity(message: object) -> types.RequestId | None:
    """The id of what was meant as a request, or whoever sent it would wait for its answer.

    What has no method is an answer, and its id one of ours.
    """
    found = message.get("id") if isinstance(message, dict) and "method" in message else None
    if isinstance(found, bool) or not isinstance(found, str | int):
        return None
    return None if re.search("[\ud800-\udfff]", str(found)) else found


def _error(code: int, message: str, *, identity: types.RequestId | None = None) -> Complaint:
    error = types.ErrorData(code=code, message=message)
    return Complaint(types.JSONRPCError(jsonrpc="2.0", id=identity, error=error))
