"""Closed schemas: what an input may be, and errors that name the place that is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from sandboxed_tools.errors import FieldError, InvalidInput, ToolDefinitionError

__all__ = ["ToolInput", "check_closed", "parse_input"]


class ToolInput(BaseModel):
    """The base of every tool's input: frozen, and closed to fields that it does not name."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


InputT = TypeVar("InputT", bound=ToolInput)


def check_closed(model: type[BaseModel]) -> None:
    """Refuse a model that, itself or nested, lets unknown fields pass.

    Raises:
        ToolDefinitionError: names the first model that is open.
    """
    schema = model.model_json_schema()
    for name, part in {model.__name__: schema, **schema.get("$defs", {})}.items():
        is_model = part.get("type") == "object" and "properties" in part
        if is_model and part.get("additionalProperties") is not False:
            raise ToolDefinitionError(
                f"{name} allows fields that it does not name; derive it from ToolInput, or set "
                'model_config = ConfigDict(extra="forbid").'
            )
    if model.model_config.get("extra") != "forbid":
        raise ToolDefinitionError(f'{model.__name__} must have extra="forbid"; use ToolInput.')


def parse_input(schema: type[InputT], raw: object, *, tool: str) -> InputT:
    """Validate ``raw`` (a mapping from JSON, or an instance of the schema) into the schema.

    Raises:
        InvalidInput: with the path of each field that is wrong; values are not repeated, because
            they may be secrets.
    """
    if isinstance(raw, schema):
        raw = {name: getattr(raw, name) for name in raw.model_fields_set}
    if not isinstance(raw, Mapping):
        raise InvalidInput(
            f"The input of {tool} is an object with named fields, not {_kind(raw)}.",
            fields=(FieldError("", "an object is expected", "object_type"),),
        )
    try:
        return schema.model_validate(dict(raw))
    except ValidationError as error:
        raise _invalid(error, schema, tool) from None
    except RecursionError:
        raise InvalidInput(f"The input of {tool} is nested too deeply.") from None


def _invalid(error: ValidationError, schema: type[BaseModel], tool: str) -> InvalidInput:
    fields = tuple(
        FieldError(
            ".".join(str(place) for place in item["loc"])[:200],
            item["msg"].removeprefix("Value error, "),
            item["type"],
        )
        for item in error.errors(include_url=False, include_input=False, include_context=False)[:20]
    )
    known = ", ".join(schema.model_fields)
    parts = "; ".join(
        f"{field.path or 'input'}: {field.message}"
        + (f" (fields are: {known})" if field.code == "extra_forbidden" else "")
        for field in fields
    )
    return InvalidInput(f"The input of {tool} does not fit its schema: {parts}", fields=fields)


def _kind(raw: Any) -> str:
    names = {type(None): "null", str: "text", list: "a list", bool: "a boolean", int: "a number"}
    return names.get(type(raw), f"a {type(raw).__name__}")
