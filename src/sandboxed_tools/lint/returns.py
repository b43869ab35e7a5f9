"""Whether a flag function could answer with a bool, as far as its text shows."""

from __future__ import annotations

import ast

from sandboxed_tools.lint.source import FunctionNode

__all__ = ["may_return_bool"]

_NEVER_BOOL = (
    ast.JoinedStr,
    ast.List,
    ast.Tuple,
    ast.Dict,
    ast.Set,
    ast.ListComp,
    ast.DictComp,
    ast.SetComp,
    ast.GeneratorExp,
    ast.Lambda,
    ast.Await,
)
_NO_BOOL_FUNCTIONS = frozenset(
    ["str", "int", "len", "list", "dict", "set", "tuple", "float", "print", "sum", "sorted"]
)
_NO_BOOL_METHODS = frozenset(
    ["strip", "lower", "upper", "split", "match", "search", "fullmatch", "findall", "get"]
)


def may_return_bool(function: FunctionNode) -> bool:
    """Whether every value that the function returns could be a ``bool``."""
    if isinstance(function, ast.Lambda):
        return _could_be_bool(function.body)
    values = [child.value for child in ast.walk(function) if isinstance(child, ast.Return)]
    return bool(values) and all(value is not None and _could_be_bool(value) for value in values)


def _could_be_bool(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, bool)
    if isinstance(node, ast.BoolOp):
        return all(_could_be_bool(value) for value in node.values)
    if isinstance(node, ast.IfExp):
        return _could_be_bool(node.body) and _could_be_bool(node.orelse)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.BitAnd | ast.BitOr | ast.BitXor)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id not in _NO_BOOL_FUNCTIONS
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr not in _NO_BOOL_METHODS
    return not isinstance(node, _NEVER_BOOL)
