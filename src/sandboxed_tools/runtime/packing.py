"""Packing the work of a Python tool for its way into a container.

By value: what is defined in ``__main__``, in a function, or in a module that the tool's author
named in ``carry``. By reference: what comes from an installed package, which the image must have
as well. Only this side packs and only the container unpacks.
"""

from __future__ import annotations

import io
import os
import sys
import threading
import types
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass
from typing import Any, Final

import cloudpickle

from sandboxed_tools.audit.redaction import looks_secret
from sandboxed_tools.errors import NotMovable
from sandboxed_tools.policy.faults import text_of
from sandboxed_tools.runtime.captures import Captures, is_generated
from sandboxed_tools.tool import AnyTool

__all__ = ["pack"]

MAX_PACKED_BYTES: Final = 8 * 1024 * 1024
MIN_SECRET_CHARS: Final = 8
_IN_THE_IMAGE: Final = ("sandboxed_tools.tool", "sandboxed_tools.errors", "sandboxed_tools.inside")
_lock = threading.Lock()  # cloudpickle keeps the modules that go by value in one global registry


def pack(tool: AnyTool) -> bytes:
    """The tool's function and its input model as one pickle.

    Raises:
        NotMovable: what it captures may not or cannot travel; the message names it.
    """
    work, schema = tool.stated_value("call"), tool.input_schema
    names, modules = _carried(tool.stated_value("carry") or ())
    captures = Captures(is_own=lambda value: _travels_by_value(value, modules), carry=names)
    captures.add(getattr(work, "__name__", "call"), work, of=tool.name)
    captures.add(schema.__name__, schema, of=tool.name)
    problems = (*_homeless(captures, work, schema, modules), *captures.problems)
    if problems:
        raise _refused(tool, problems)
    secrets = _own_secrets()
    with _lock:
        known = _packed.get(tool)
    if known is not None and not names and known.is_of(captures.values, secrets):
        return known.data
    try:
        with _by_value(modules):
            packed = _dump((work, schema), secrets)
    except (NotMovable, MemoryError):
        raise
    except RecursionError:
        raise _refused(tool, ["what it captures is nested too deeply"]) from None
    except (Exception, SystemExit) as error:  # an author's objects, which may raise anything
        said = text_of(error, say=str)
        raise _refused(tool, [f"something that it captures cannot travel: {said}"]) from error
    if len(packed) > MAX_PACKED_BYTES:
        raise _refused(tool, [f"it is {len(packed)} bytes; at most {MAX_PACKED_BYTES}"])
    with _lock:
        _packed[tool] = _Packed(packed, tuple(captures.values), secrets)
    return packed


@dataclass(frozen=True, slots=True)
class _Packed:
    """A pickle, and what it was made of: kept alive, so that no other object has its identity."""

    data: bytes
    values: tuple[Any, ...]
    secrets: tuple[str, ...]

    def is_of(self, values: list[Any], secrets: tuple[str, ...]) -> bool:
        return (
            self.secrets == secrets
            and len(self.values) == len(values)
            and all(one is other for one, other in zip(self.values, values, strict=True))
        )


_packed: weakref.WeakKeyDictionary[AnyTool, _Packed] = weakref.WeakKeyDictionary()


def _own_secrets() -> tuple[str, ...]:
    """Values of this process's variables that look like secrets."""
    return tuple(
        value
        for name, value in os.environ.items()
        if len(value) >= MIN_SECRET_CHARS and looks_secret(name, value)
    )


def _refused(tool: AnyTool, problems: Iterable[str]) -> NotMovable:
    listed = "; ".join(list(problems)[:8])
    return NotMovable(f"{tool.name} cannot be moved into a container: {listed[:2000]}.")


def _carried(carry: Iterable[Any]) -> tuple[frozenset[str], frozenset[str]]:
    """Names of values, and names of modules with everything below them."""
    names, modules = set(), set()
    for item in carry:
        if isinstance(item, types.ModuleType):
            modules.add(item.__name__)
        elif item in sys.modules:
            modules.add(item)
        else:
            names.add(item)
    return frozenset(names), frozenset(modules)


def _module_of(value: Any) -> str:
    if isinstance(value, types.ModuleType):
        return value.__name__
    return str(getattr(value, "__module__", None) or "")


def _is_named(module: str, modules: frozenset[str]) -> bool:
    return any(module == one or module.startswith(f"{one}.") for one in modules)


def _travels_by_value(value: Any, modules: frozenset[str]) -> bool:
    module = _module_of(value)
    if module == "__main__" or _is_named(module, modules):
        return True
    if isinstance(value, types.ModuleType):
        return False
    if is_generated(value) and not isinstance(value, types.FunctionType):
        return False
    return not _is_importable(value, module)


def _is_importable(value: Any, module: str) -> bool:
    """Whether its module and name lead to it: then it goes by reference."""
    found: Any = sys.modules.get(module)
    for name in str(getattr(value, "__qualname__", "")).split("."):
        found = getattr(found, name, None)
    return found is value


def _homeless(
    captures: Captures, work: Any, schema: type, modules: frozenset[str]
) -> Iterator[str]:
    """What would go by reference to a module that no image can have."""
    told: set[str] = set()
    for value in (work, schema, *captures.by_reference):
        module = _module_of(value)
        if _travels_by_value(value, modules) or module in told or _image_may_have(module):
            continue
        told.add(module)
        name = getattr(value, "__qualname__", None) or module
        if module.partition(".")[0] == "sandboxed_tools":
            yield f"{name} works on the client's own state"
        else:
            yield f"{name} is defined in the module {module}: name that in carry="


def _image_may_have(module: str) -> bool:
    """Whether a module is the standard library's, an installed package's, or ours in the image."""
    top = module.partition(".")[0]
    if top == "sandboxed_tools":
        return module.startswith(_IN_THE_IMAGE)
    if not module or top in sys.stdlib_module_names or top in sys.builtin_module_names:
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return (file is not None and f"{os.sep}site-packages{os.sep}" in file) or (
        file is not None and f"{os.sep}dist-packages{os.sep}" in file
    )


@contextmanager
def _by_value(modules: frozenset[str]) -> Iterator[None]:
    with _lock:
        registered = [
            sys.modules[name]
            for name in modules
            if name not in cloudpickle.list_registry_pickle_by_value()
        ]
        for module in registered:
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in registered:
                cloudpickle.unregister_pickle_by_value(module)


class _Packer(cloudpickle.Pickler):  # type: ignore[misc]
    """The net under the listing: sees every object that is packed, wherever it hides."""

    def __init__(self, file: io.BytesIO, secrets: tuple[str, ...]) -> None:
        super().__init__(file, protocol=5)
        self._secrets = secrets

    def reducer_override(self, value: Any) -> Any:
        # Else a copy would travel, and no comparison with the real one would hold.
        return "MISSING" if value is MISSING else super().reducer_override(value)

    def persistent_id(self, value: Any) -> None:
        if isinstance(value, bytes) and value.isascii():
            value = value.decode("ascii")
        if isinstance(value, str):
            if looks_secret("", value) or any(secret in value for secret in self._secrets):
                raise NotMovable(
                    "The tool cannot be moved into a container: a text in it looks like a secret. "
                    "Pass secrets from the client's side, or work without them."
                )
        elif value is os.environ:
            raise NotMovable(
                "The tool cannot be moved into a container: it captures the client's environment."
            )


def _dump(value: Any, secrets: tuple[str, ...]) -> bytes:
    with io.BytesIO() as file:
        _Packer(file, secrets).dump(value)
        return file.getvalue()
