"""What a Python function would take along into a container, listed before anything is packed.

A function that travels by value takes what its code names: globals, closures, defaults, and the
same of every function and class of its own that it names. An API client among these would carry its
keys into the container. So only functions, classes, modules, numbers and short texts go along by
themselves; anything else is refused unless the tool's author names it in ``carry``, and what looks
like a secret is refused in any case.
"""

from __future__ import annotations

import datetime
import decimal
import dis
import enum
import functools
import logging
import types
import typing
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field
from pathlib import PurePath
from typing import Any, Final

from pydantic import BaseModel, SecretBytes, SecretStr

from sandboxed_tools.audit.redaction import looks_secret

__all__ = ["Captured", "Captures", "is_generated"]

SHORT_CHARS: Final = 256
SHORT_ITEMS: Final = 16
MAX_DEPTH: Final = 6
_GENERATING: Final = frozenset(
    {"abc", "contextlib", "dataclasses", "enum", "functools", "pydantic", "reprlib", "typing"}
)
_GLOBALS: Final = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"})
_NUMBERS: Final = (
    bool | int | float | complex | decimal.Decimal | datetime.date | datetime.time
)  # fmt: skip
_SMALL: Final = datetime.timedelta | datetime.tzinfo | uuid.UUID | PurePath | enum.Enum
_BY_NAME: Final = (
    types.BuiltinFunctionType
    | types.WrapperDescriptorType
    | types.MethodDescriptorType
    | types.MemberDescriptorType
    | types.GetSetDescriptorType
    | logging.Logger  # packed as its name
)
_TYPING: Final = types.GenericAlias | types.UnionType | typing.TypeVar | typing.ForwardRef


@dataclass(frozen=True, slots=True)
class Captured:
    """One thing that goes along. ``problem`` says why it must not; empty when it may."""

    name: str
    of: str
    kind: str
    problem: str = ""


@dataclass(slots=True)
class Captures:
    """The listing for one tool. ``is_own`` tells what travels by value; ``carry`` names values.

    ``values`` is everything that was looked at: the same objects again make the same listing.
    """

    is_own: Callable[[Any], bool]
    carry: frozenset[str] = frozenset()
    items: list[Captured] = field(default_factory=list)
    by_reference: list[Any] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)

    @property
    def problems(self) -> tuple[str, ...]:
        """What forbids the move, each as a phrase."""
        return tuple(
            f"{item.name} ({item.kind}, used by {item.of}) {item.problem}"
            for item in self.items
            if item.problem
        )

    def add(self, name: str, value: Any, *, of: str) -> None:
        """List ``value`` and, where it travels by value, what it takes along itself."""
        if id(value) in self._seen and not isinstance(value, str | bytes):
            return
        self._seen.add(id(value))
        self.values.append(value)
        if holds_secret(name, value):
            self._note(name, value, of, "looks like a secret, which never goes into a container")
        elif name in self.carry:
            self._note(name, value, of)
        elif isinstance(value, types.FunctionType):
            if self._goes_by_value(name, value, of=of):
                self._add_function(value)
        elif isinstance(value, type):
            if self._goes_by_value(name, value, of=of):
                self._add_class(value)
        elif isinstance(value, types.ModuleType):
            if self._goes_by_value(name, value, of=of):
                self._add_all(_public(vars(value)), of=value.__name__)
        elif (inner := list(_wrapped(value))) or isinstance(value, functools.partial):
            self._add_all(inner, of=name)
        else:
            self._note(name, value, of, "" if _is_small(value) else "is data; name it in carry=")

    def _goes_by_value(self, name: str, value: Any, *, of: str) -> bool:
        self._note(name, value, of)
        if self.is_own(value):
            return True
        self.by_reference.append(value)
        return False

    def _add_all(self, items: Any, *, of: str) -> None:
        for name, value in items:
            self.add(name, value, of=of)

    def _add_function(self, function: types.FunctionType) -> None:
        of = function.__qualname__
        self.values.append(function.__code__)
        if is_generated(function):
            # Their own state is nobody's data, but what they wrap is the author's.
            self._add_all(_wrapped_functions(function), of=of)
            return
        for name in sorted(set(_global_names(function.__code__))):
            if name in function.__globals__:
                self.add(name, function.__globals__[name], of=of)
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            try:
                self.add(name, cell.cell_contents, of=of)
            except ValueError:
                continue  # not bound yet
        self._add_all(_parameters(function), of=of)
        self._add_all(vars(function).items(), of=of)

    def _add_class(self, kind: type) -> None:
        of = kind.__qualname__
        for base in kind.__bases__:
            self.add(base.__name__, base, of=of)
        self._add_all(_attributes(kind), of=of)
        for name, item in getattr(kind, "__dataclass_fields__", {}).items():
            self._add_default(name, item.default, item.default_factory, of=of)
        if issubclass(kind, BaseModel):
            for name, info in kind.model_fields.items():
                self._add_default(name, info.default, info.default_factory, of=of)

    def _add_default(self, name: str, default: Any, factory: Any, *, of: str) -> None:
        if default is not MISSING and type(default).__name__ != "PydanticUndefinedType":
            self.add(name, default, of=of)
        if factory is not None and factory is not MISSING:
            self.add(f"{name} default_factory", factory, of=of)

    def _note(self, name: str, value: Any, of: str, problem: str = "") -> None:
        kind = type(value).__name__
        self.items.append(Captured(name[:100], of[:200], kind[:100], problem))


def is_generated(value: Any) -> bool:
    """Whether a library wrote this function or class into an author's code."""
    origin: Any = getattr(value, "__module__", None)
    if isinstance(value, types.FunctionType):
        origin = value.__globals__.get("__name__")
    return str(origin).partition(".")[0] in _GENERATING


def _wrapped_functions(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        if isinstance(value, types.FunctionType | type | functools.partial | types.MethodType):
            yield name, value


def holds_secret(name: str, value: Any, *, depth: int = 0) -> bool:
    """Whether a value, or anything in it, looks like a secret by its name or its form."""
    if isinstance(value, SecretStr | SecretBytes):
        return True
    if isinstance(value, str | bytes | bytearray):
        text = value if isinstance(value, str) else bytes(value).decode("latin-1")
        return looks_secret(name, text)
    if depth >= MAX_DEPTH or isinstance(value, type | types.FunctionType | types.ModuleType):
        return False
    return any(holds_secret(key, item, depth=depth + 1) for key, item in _inside(name, value))


def _inside(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((str(key), item) for key, item in list(value.items()))
    elif isinstance(value, tuple) and len(names := getattr(value, "_fields", ())) == len(value):
        yield from ((str(key), item) for key, item in zip(names, value, strict=True))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((name, item) for item in list(value))
    elif not isinstance(value, enum.Enum | logging.Logger):
        yield from list(getattr(value, "__dict__", {}).items())
        yield from _slots(value)


def _slots(value: Any) -> Iterator[tuple[str, Any]]:
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else tuple(slots):
            is_mangled = slot.startswith("__") and not slot.endswith("__")
            name = f"_{kind.__name__.lstrip('_')}{slot}" if is_mangled else slot
            yield slot, getattr(value, name, None)


def _is_small(value: Any) -> bool:
    if isinstance(value, str | bytes):
        return len(value) <= SHORT_CHARS
    if isinstance(value, tuple | frozenset):
        return len(value) <= SHORT_ITEMS and all(map(_is_small, value))
    if value is None or value is Ellipsis or value is NotImplemented:
        return True
    if isinstance(value, types.BuiltinFunctionType) and not (
        value.__self__ is None or isinstance(value.__self__, types.ModuleType | type)
    ):
        return False  # a method of some object, which would come along
    if isinstance(value, _NUMBERS | _SMALL | _BY_NAME | _TYPING):
        return True
    return type(value).__module__ in ("typing", "typing_extensions")


def _wrapped(value: Any) -> Iterator[tuple[str, Any]]:
    """The functions inside of what only wraps functions."""
    if isinstance(value, staticmethod | classmethod):
        yield value.__func__.__name__, value.__func__
    elif isinstance(value, property):
        for one in (value.fget, value.fset, value.fdel):
            if one is not None:
                yield getattr(one, "__name__", "property"), one
    elif isinstance(value, functools.cached_property):
        yield value.func.__name__, value.func
    elif isinstance(value, types.MethodType):
        yield value.__func__.__name__, value.__func__
        yield "self", value.__self__
    elif isinstance(value, functools._lru_cache_wrapper):
        yield value.__wrapped__.__name__, value.__wrapped__
    elif isinstance(value, functools.partial):
        yield getattr(value.func, "__name__", "func"), value.func
        yield from ((f"argument {number}", item) for number, item in enumerate(value.args))
        yield from value.keywords.items()
    elif type(value).__name__ == "PydanticDescriptorProxy":
        yield "validator", value.wrapped


def _global_names(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in _GLOBALS:
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _parameters(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    defaults = function.__defaults__ or ()
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    yield from zip(names[len(names) - len(defaults) :], defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()
    for name, annotation in function.__annotations__.items():
        yield f"annotation of {name}", annotation


def _attributes(kind: type) -> Iterator[tuple[str, Any]]:
    """What the author put into a class; what Python and pydantic keep there is not data."""
    for name, value in vars(kind).items():
        is_code = isinstance(value, types.FunctionType) or any(True for _ in _wrapped(value))
        if is_code or not (name.startswith(("__", "_abc_", "_member_")) or name == "model_config"):
            if issubclass(kind, enum.Enum) and not is_code:
                continue
            yield name, value


def _public(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from ((name, value) for name, value in list(values.items()) if not name.startswith("__"))
