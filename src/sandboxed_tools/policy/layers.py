"""Layers of policy: organisation, user, environment, session, project; and how they become one.

A lower layer can tighten what a higher one says and never loosen it. Each field of
:class:`~sandboxed_tools.policy.Policy` declares how its values merge. A field that no layer states
has its default.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from pydantic import ValidationError

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.policy.rules import Rule
from sandboxed_tools.policy.settings import Merge, Policy, merge_of
from sandboxed_tools.tool import Limits, for_terminal

__all__ = ["LAYERS", "Layer", "LayerName", "MergedPolicy", "Origin", "layer_of", "merge_layers"]

LayerName = Literal["organisation", "user", "environment", "session", "project"]

LAYERS: Final[tuple[LayerName, ...]] = (
    "organisation",
    "user",
    "environment",
    "session",
    "project",
)
"""From the highest to the lowest."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one layer states: only the fields that are set in ``stated`` count.

    ``source`` names it for people: a file, or where its values come from.
    """

    name: LayerName
    source: str
    stated: Policy


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from."""

    layer: str
    source: str


@dataclass(frozen=True, slots=True)
class MergedPolicy:
    """One policy out of all layers.

    Attributes:
        policy: what holds.
        origins: for each field the layers that its value comes from; none for a default.
        notes: what was left out, and why, in words.
        digest: the policy's content, in 16 hexadecimal digits, for records.
    """

    policy: Policy
    origins: Mapping[str, tuple[Origin, ...]]
    notes: tuple[str, ...] = ()
    digest: str = ""


def layer_of(name: LayerName, source: str, values: Mapping[str, Any]) -> Layer:
    """Check what a layer states.

    Raises:
        ConfigurationError: names each unknown field and each value that cannot be used, and the
            source; values are not repeated.
    """
    if name == "project":
        _check_project(source, values)
    try:
        stated = Policy.model_validate(dict(values))
    except ValidationError as error:
        parts = "; ".join(
            f"{'.'.join(str(place) for place in item['loc'])[:100] or 'policy'}: "
            f"{item['msg'].removeprefix('Value error, ')}"
            for item in error.errors(include_url=False, include_input=False)[:20]
        )
        raise ConfigurationError(
            f"The policy of the layer {name} cannot be used: {for_terminal(parts, one_line=True)}",
            operator_detail=source,
        ) from None
    return Layer(name, source, stated)


def _check_project(source: str, values: Mapping[str, Any]) -> None:
    refused = [
        field
        for field in values
        if field in Policy.model_fields and merge_of(field).project == "no"
    ]
    if refused:
        raise ConfigurationError(
            f"The project's own file may not set {', '.join(sorted(refused))}: it is part of the "
            "workspace, and anybody who can write there would decide it. Set it in your own "
            "policy file.",
            operator_detail=source,
        )


def merge_layers(
    layers: Sequence[Layer], *, has_consent: Callable[[], bool] = lambda: False
) -> MergedPolicy:
    """Merge layers into one policy.

    ``has_consent`` is asked, once and only where the project's file would widen something, whether
    a person agreed to this very file.

    Raises:
        ConfigurationError: two layers have the same name, or a field does not say how it merges.
    """
    ordered = sorted(layers, key=lambda layer: LAYERS.index(layer.name))
    if len({layer.name for layer in ordered}) != len(ordered):
        raise ConfigurationError("A layer of the policy was given twice.")
    values: dict[str, Any] = {}
    origins: dict[str, tuple[Origin, ...]] = {}
    notes: list[str] = []
    agreed: bool | None = None
    for field in Policy.model_fields:
        merge = merge_of(field)
        speaking = [layer for layer in ordered if field in layer.stated.model_fields_set]
        if merge.project == "consent" and any(layer.name == "project" for layer in speaking):
            agreed = has_consent() if agreed is None else agreed
            if not agreed:
                speaking = [layer for layer in speaking if layer.name != "project"]
                notes.append(
                    f"{field} of the project's file is left out until a person agrees to it"
                )
        if not speaking:
            continue
        values[field], deciding = _merged(merge, field, speaking)
        origins[field] = tuple(Origin(layer.name, layer.source) for layer in deciding)
    policy = Policy.model_construct(_fields_set=set(values), **_with_defaults(values))
    return MergedPolicy(policy, MappingProxyType(origins), tuple(notes), _digest(policy))


def _with_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    defaults = Policy()
    return {field: values.get(field, getattr(defaults, field)) for field in Policy.model_fields}


def _merged(merge: Merge, field: str, speaking: Sequence[Layer]) -> tuple[Any, Sequence[Layer]]:
    """The value of a field, and the layers that it comes from."""
    stated = [(layer, getattr(layer.stated, field)) for layer in speaking]
    if merge.kind == "operator_only":
        return stated[0][1], speaking[:1]
    if merge.kind == "and":
        deciding = [layer for layer, value in stated if not value] or list(speaking)
        return all(value for _, value in stated), deciding
    if merge.kind == "union":
        return _union([(layer.name, value) for layer, value in stated]), speaking
    if merge.kind == "intersection":
        return _common(field, stated), speaking
    if merge.order:
        tightest = min((value for _, value in stated), key=merge.order.index)
        default = Policy.model_fields[field].default
        if all(layer.name == "project" for layer in speaking):
            # Where nobody else speaks, the default does: the project must not loosen that either.
            tightest = min(tightest, default, key=merge.order.index)
        return tightest, [layer for layer, value in stated if value == tightest]
    return _smallest([value for _, value in stated]), speaking


def _union(stated: Sequence[tuple[str, Any]]) -> Any:
    if isinstance(stated[0][1], frozenset):
        return frozenset().union(*(value for _, value in stated))
    joined: dict[Any, None] = {}
    for name, value in stated:
        for item in value:
            # Which layer a rule is of is decided here, and by nothing that the layer says.
            joined[item.of_layer(name) if isinstance(item, Rule) else item] = None
    return tuple(joined)


def _common(field: str, stated: Sequence[tuple[Layer, Any]]) -> frozenset[Any]:
    """What every layer names; where only the project speaks, nothing beside the default."""
    common: frozenset[Any] = stated[0][1]
    for _, value in stated[1:]:
        common &= value
    if all(layer.name == "project" for layer, _ in stated):
        common &= Policy.model_fields[field].default
    return common


def _smallest(stated: Sequence[Limits | None]) -> Limits | None:
    known = [value for value in stated if value is not None]
    if not known:
        return None
    smallest = known[0]
    for value in known[1:]:
        smallest = smallest.tightened(value)
    return smallest


def _digest(policy: Policy) -> str:
    text = json.dumps(_canonical(policy.model_dump(mode="json")), sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _canonical(value: Any) -> Any:
    """Sets are dumped as lists in any order."""
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return sorted(value)
    return value
