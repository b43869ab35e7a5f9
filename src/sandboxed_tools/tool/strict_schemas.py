"""Whether a vendor can hold a model to a schema exactly, by the subset of JSON Schema it compiles.

Nothing is loosened to get there: a schema that a vendor cannot enforce whole is sent without
``strict``, and our own validation holds in any case.

Sources: OpenAI, "Structured model outputs", section "Supported schemas"; Anthropic, "Structured
outputs", section "JSON Schema limitations".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["ANTHROPIC", "OPENAI", "StrictRules", "without_private_formats"]

_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_EVERYWHERE: Final = frozenset(
    {
        "type",
        "title",
        "description",
        "enum",
        "const",
        "anyOf",
        "$ref",
        "$defs",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "format",
    }
)


@dataclass(frozen=True, slots=True)
class StrictRules:
    """The schemas that one vendor enforces whole.

    ``all_required``: every property must be required. ``keywords``: further keywords that may
    occur. ``may_recurse``: whether a definition may refer to itself.
    """

    all_required: bool
    keywords: frozenset[str]
    formats: frozenset[str]
    may_recurse: bool

    def accept(self, schema: dict[str, Any]) -> bool:
        """Whether ``strict`` may be stated for this schema as it is."""
        if schema.get("type") != "object" or "anyOf" in schema or "$ref" in schema:
            return False
        if not self.may_recurse and _recurses(schema):
            return False
        return all(self._accept_part(part) for part in _parts(schema))

    def _accept_part(self, part: dict[str, Any]) -> bool:
        if not part.keys() <= _EVERYWHERE | self.keywords:
            return False
        if "format" in part and part["format"] not in self.formats:
            return False
        if not {"type", "anyOf", "$ref", "enum", "const"} & part.keys():
            return False
        if part.get("type") != "object":
            return True
        properties = part.get("properties", {})
        is_closed = part.get("additionalProperties") is False
        return is_closed and (
            not self.all_required or set(part.get("required", ())) == set(properties)
        )


OPENAI: Final = StrictRules(
    all_required=True,
    keywords=frozenset(
        {
            "pattern",
            "multipleOf",
            "maximum",
            "exclusiveMaximum",
            "minimum",
            "exclusiveMinimum",
            "minItems",
            "maxItems",
        }
    ),
    formats=_FORMATS,
    may_recurse=True,
)

ANTHROPIC: Final = StrictRules(
    all_required=False,
    keywords=frozenset({"default"}),
    formats=_FORMATS | {"uri"},
    may_recurse=False,
)


def without_private_formats(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema without ``format: path``, which pydantic made up: it constrains nothing."""
    for part in _parts(schema):
        if part.get("format") == "path":
            del part["format"]
    return schema


def _parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The schema and every schema in it; not what only looks like one, such as a default."""
    yield schema
    for name in ("properties", "$defs"):
        for part in schema.get(name, {}).values():
            yield from _parts(part)
    for part in schema.get("anyOf", ()):
        yield from _parts(part)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from _parts(schema[name])


def _recurses(schema: dict[str, Any]) -> bool:
    uses = {
        f"#/$defs/{name}": {part["$ref"] for part in _parts(definition) if "$ref" in part}
        for name, definition in schema.get("$defs", {}).items()
    }

    def reaches(start: str, at: str, seen: set[str]) -> bool:
        for ref in uses.get(at, ()):
            if ref == start or (ref not in seen and reaches(start, ref, seen | {ref})):
                return True
        return False

    return any(reaches(ref, ref, {ref}) for ref in uses)
