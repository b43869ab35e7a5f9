"""Values of the library as JSON objects, the same for every command."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from sandboxed_tools.errors import FieldError, InvalidInput, SandboxedToolsError
from sandboxed_tools.policy import Placement
from sandboxed_tools.tool import ExecResult, Reason

__all__ = ["dump", "error_object", "exec_object", "plain", "reasons_list"]


def dump(value: Any) -> str:
    """One line of JSON. Lone surrogates become escapes, so that the line is always UTF-8."""
    return json.dumps(value, ensure_ascii=True, default=plain)


def plain(value: Any) -> Any:
    """Turn a value of the library into what JSON can hold."""
    if isinstance(value, ExecResult):
        return exec_object(value)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, frozenset | set):
        return sorted(value)
    return str(value)


def exec_object(result: ExecResult, placement: Placement | None = None) -> dict[str, Any]:
    """The fields of an ``ExecResult``; streams as text, and as base64 where they are not UTF-8."""
    item: dict[str, Any] = {
        field.name: getattr(result, field.name)
        for field in dataclasses.fields(result)
        if field.name != "frames"  # not for people: the tool's output says what was in them
    }
    for stream in ("stdout", "stderr"):
        data: bytes = item[stream]
        item[stream] = data.decode("utf-8", "replace")
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            item[f"{stream}_base64"] = base64.b64encode(data).decode()
    if placement is not None:
        item["placement"] = placement.where
        item["reasons"] = reasons_list(placement.reasons)
    return item


def reasons_list(reasons: Iterable[Reason]) -> list[dict[str, Any]]:
    return [
        {
            "code": reason.code,
            "message": reason.message,
            "start": reason.start,
            "end": reason.end,
        }
        for reason in reasons
    ]


def error_object(error: SandboxedToolsError) -> dict[str, Any]:
    """An error as an object; what only the operator may see is on standard error, not in here."""
    item: dict[str, Any] = {"code": error.code, "message": str(error)}
    if isinstance(error, InvalidInput):
        item["fields"] = [_field(field) for field in error.fields]
    return {"error": item}


def _field(field: FieldError) -> dict[str, str]:
    return {"path": field.path, "message": field.message, "code": field.code}
