"""What Python code may do, as far as its text proves it: an allow-list of constructs and modules.

The container contains the code whatever this says. What rests on it is whether a person is asked,
and whether the workspace is shown read-only.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import types
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, Literal

__all__ = ["Effect", "python_effect"]

Effect = Literal["none", "contained", "unknown"]
"""``none``: it computes and prints, no more. ``contained``: files and data, by well-known modules
only. ``unknown``: anything, such as processes, sockets, or code that is made at run time."""

MAX_CODE_CHARS: Final = 200_000
MAX_NODES: Final = 50_000

# Of these only what __all__ lists may be used (all public names of a module written in C), and no
# module that they hold: `random._os` and `re.enum.sys` lead everywhere.
_PURE_MODULES: Final = frozenset(
    {"base64", "bisect", "calendar", "cmath", "collections", "copy", "datetime", "decimal"}
    | {"difflib", "fractions", "functools", "hashlib", "heapq", "itertools", "json", "math"}
    | {"random", "re", "statistics", "string", "textwrap", "unicodedata"}
)
# Without __all__, but nothing in them is anything else than their own.
_ALL_PUBLIC: Final = frozenset({"bisect", "decimal"})
# singledispatch evaluates annotations that are text (typing.get_type_hints). The others look up
# attributes by names that are made at run time, and hand them to methods of the code's own:
# `wraps(f, ["__globals__"])`, `Formatter.get_field("0.__globals__", …)`.
_NOT_PURE: Final = frozenset(
    {"functools.singledispatch", "functools.singledispatchmethod", "functools.update_wrapper"}
    | {"functools.wraps", "string.Formatter"}
)
_PURE_BUILTINS: Final = frozenset(
    {"abs", "all", "any", "ascii", "bin", "bool", "bytearray", "bytes", "chr", "complex", "dict"}
    | {"divmod", "enumerate", "filter", "float", "format", "frozenset", "hash", "hex", "int"}
    | {"isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "next", "object"}
    | {"oct", "ord", "pow", "print", "property", "range", "repr", "reversed", "round", "set"}
    | {"slice", "sorted", "staticmethod", "str", "sum", "super", "tuple", "zip", "__name__"}
    | {"NotImplemented", "Ellipsis", "classmethod"}
)
_PURE_NODES: Final = (
    ast.Module | ast.Expr | ast.expr_context | ast.operator | ast.unaryop | ast.boolop | ast.cmpop
    | ast.Constant | ast.Name | ast.Attribute | ast.Subscript | ast.Slice | ast.Starred
    | ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare | ast.Call | ast.keyword | ast.IfExp
    | ast.NamedExpr | ast.Lambda | ast.arguments | ast.arg | ast.List | ast.Tuple | ast.Set
    | ast.Dict | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.comprehension
    | ast.JoinedStr | ast.FormattedValue | ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete
    | ast.Pass | ast.Assert | ast.If | ast.For | ast.While | ast.Break | ast.Continue | ast.Try
    | ast.ExceptHandler | ast.Raise | ast.FunctionDef | ast.ClassDef | ast.Return | ast.Yield
    | ast.YieldFrom | ast.Import | ast.ImportFrom | ast.alias | ast.Global | ast.Nonlocal
)  # fmt: skip
# Frames and code objects hold the builtins, and with them everything.
_INNER_ATTRIBUTES: Final = ("_", "gi_", "cr_", "ag_", "tb_", "f_", "co_", "mro")

_CONTAINED_MODULES: Final = _PURE_MODULES | frozenset(
    {"PIL", "abc", "argparse", "array", "bz2", "configparser", "contextlib", "csv", "dataclasses"}
    | {"enum", "fnmatch", "glob", "gzip", "html", "io", "logging", "lzma", "matplotlib", "networkx"}
    | {"numbers", "numpy", "operator", "pandas", "pathlib", "pprint", "scipy", "seaborn", "secrets"}
    | {"sklearn", "sqlite3", "struct", "sympy", "tarfile", "tempfile", "time", "timeit", "tomllib"}
    | {"traceback", "typing", "uuid", "warnings", "xml", "zipfile", "zlib", "zoneinfo"}
)
_CONTAINED_NAMES: Final = {
    "os": frozenset(
        {"cpu_count", "environ", "getcwd", "getenv", "linesep", "listdir", "makedirs", "mkdir"}
        | {"path", "remove", "rename", "replace", "rmdir", "scandir", "sep", "stat", "unlink"}
        | {"walk"}
    ),
    "sys": frozenset(
        {"argv", "exit", "getsizeof", "maxsize", "platform", "stderr", "stdin", "stdout"}
        | {"version", "version_info"}
    ),
}
_MAKING_CODE: Final = frozenset(
    {"eval", "exec", "compile", "__import__", "breakpoint", "input", "globals", "locals", "vars"}
    | {"getattr", "setattr", "delattr", "__builtins__", "__loader__", "__spec__", "memoryview"}
)
# Well-known modules hold others (`logging.os`), so what leads out of them by name is looked for.
# That is no proof; nothing but a question to a person rests on it.
_LEADING_OUT: Final = frozenset(
    {"_os", "_sys", "builtins", "compile", "ctypes", "ctypeslib", "eval", "exec", "fork", "forkpty"}
    | {"importlib", "kill", "modules", "multiprocessing", "os", "popen", "posix", "pty", "socket"}
    | {"subprocess", "sys", "system", "threading", "urllib"}
    | {"ag_frame", "cr_frame", "f_back", "f_builtins", "f_globals", "f_locals", "gi_frame"}
    | {"tb_frame"}
)
_PLAIN_DUNDERS: Final = frozenset(
    {"__name__", "__doc__", "__file__", "__len__", "__init__", "__str__", "__repr__", "__version__"}
)


@lru_cache(maxsize=128)
def python_effect(code: str) -> Effect:
    """Judge the code by its text alone. What does not parse, or is too long, is ``unknown``."""
    if len(code) > MAX_CODE_CHARS:
        return "unknown"
    try:
        tree = ast.parse(code)
        nodes = list(ast.walk(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "unknown"
    if len(nodes) > MAX_NODES:
        return "unknown"
    if _is_pure(nodes):
        return "none"
    return "contained" if _are_contained(nodes) else "unknown"


# ---- without effect


def _is_pure(nodes: list[ast.AST]) -> bool:
    modules = dict(_module_aliases(nodes))
    stored = {
        *(node.id for node in nodes if isinstance(node, ast.Name) and _is_stored(node)),
        *(node.arg for node in nodes if isinstance(node, ast.arg)),
        *(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)),
        *(node.name or "" for node in nodes if isinstance(node, ast.ExceptHandler)),
    }
    if stored & modules.keys():
        return False  # a name that is a module here and something else there
    if any(
        _is_import(part)
        for node in nodes
        if isinstance(node, ast.ClassDef)
        for part in ast.walk(node)
    ):
        return False  # a module would be an attribute of the class
    bases = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    return all(_is_pure_node(node, modules=modules, bases=bases) for node in nodes)


def _module_aliases(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name, alias.name


def _is_import(node: ast.AST) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _is_stored(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _is_pure_node(node: ast.AST, *, modules: dict[str, str], bases: set[int]) -> bool:
    if not isinstance(node, _PURE_NODES):
        return False
    if isinstance(node, ast.Import):
        return all(alias.name in _PURE_MODULES for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return (
            node.level == 0
            and node.module in _PURE_MODULES
            and all(_is_listed(node.module, alias.name) for alias in node.names)
        )
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id in modules:
            return not _is_stored_attribute(node) and _is_listed(modules[node.value.id], node.attr)
        return not node.attr.startswith(_INNER_ATTRIBUTES)
    if isinstance(node, ast.Name):
        if node.id in modules:
            return id(node) in bases  # a module is no value: under another name it would pass
        return _is_pure_name(node.id)
    return True


def _is_stored_attribute(node: ast.Attribute) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _is_pure_name(name: str) -> bool:
    if name in _PURE_BUILTINS:
        return True
    if name.startswith("__"):
        return False
    known = getattr(builtins, name, None)
    return known is None or (isinstance(known, type) and issubclass(known, BaseException))


@lru_cache(maxsize=512)
def _is_listed(module: str, name: str) -> bool:
    """Whether a pure module offers this, as anything but another module."""
    if f"{module}.{name}" in _NOT_PURE or name.startswith("_"):
        return False
    loaded = importlib.import_module(module)
    listed = getattr(loaded, "__all__", None)
    is_in_c = not getattr(loaded, "__file__", "").endswith(".py")
    if listed is None and not is_in_c and module not in _ALL_PUBLIC:
        return False
    return (listed is None or name in listed) and not isinstance(
        getattr(loaded, name, loaded), types.ModuleType
    )


# ---- contained


def _are_contained(nodes: list[ast.AST]) -> bool:
    partly = {alias: name for alias, name in _module_aliases(nodes) if name in _CONTAINED_NAMES}
    bases = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.attr in _CONTAINED_NAMES.get(partly.get(node.value.id, ""), ())
    }
    return all(
        id(node) in bases
        if isinstance(node, ast.Name) and node.id in partly
        else _is_contained(node)
        for node in nodes
    )


def _is_contained(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return all(
            alias.name.partition(".")[0] in _CONTAINED_MODULES or alias.name in _CONTAINED_NAMES
            for alias in node.names
        )
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        if module in _CONTAINED_NAMES:
            return all(alias.name in _CONTAINED_NAMES[module] for alias in node.names)
        return node.level == 0 and module.partition(".")[0] in _CONTAINED_MODULES
    if isinstance(node, ast.Attribute):
        is_inner = node.attr.startswith("__") and node.attr not in _PLAIN_DUNDERS
        return not is_inner and node.attr not in _LEADING_OUT
    if isinstance(node, ast.Name):
        return node.id not in _MAKING_CODE
    return True
