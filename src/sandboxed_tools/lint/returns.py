"""Whether a flag function could answer with a bool, as far as its text shows."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from sandboxed_tools.lint.scopes import FunctionNode

__all__ = ["may_return_bool", "never_bool"]

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
    ["strip", "lower", "upper", "split", "match", "search", "fullmatch", "findall"]
)


def may_return_bool(function: FunctionNode) -> bool:
    """Whether every value that the function returns could be a ``bool``, and it returns one."""
    if isinstance(function, ast.Lambda):
        return not never_bool(function.body)
    own = list(_own_nodes(function.body))
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in own):
        return False
    values = [node.value for node in own if isinstance(node, ast.Return)]
    return not _ends_open(function.body) and all(
        value is not None and not never_bool(value) for value in values
    )


def never_bool(node: ast.expr) -> bool:
    """Whether an expression is, for some input, surely something else than a ``bool``."""
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, bool)
    if isinstance(node, ast.BoolOp):
        return any(never_bool(value) for value in node.values)
    if isinstance(node, ast.IfExp):
        return never_bool(node.body) or never_bool(node.orelse)
    if isinstance(node, ast.NamedExpr):
        return never_bool(node.value)
    if isinstance(node, ast.UnaryOp):
        return not isinstance(node.op, ast.Not)
    if isinstance(node, ast.BinOp):
        return not isinstance(node.op, ast.BitAnd | ast.BitOr | ast.BitXor)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in _NO_BOOL_FUNCTIONS
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in _NO_BOOL_METHODS
    return isinstance(node, _NEVER_BOOL)


def _own_nodes(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Every node of a body, without those of functions inside it."""
    pending = list(body)
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            pending.extend(ast.iter_child_nodes(node))


def _ends_open(body: Sequence[ast.stmt]) -> bool:
    """Whether the end of a body can be reached, so that the function returns ``None`` there."""
    last = body[-1] if body else None
    if isinstance(last, ast.Return | ast.Raise | ast.Continue | ast.Break):
        return False
    if isinstance(last, ast.If):
        return not last.orelse or _ends_open(last.body) or _ends_open(last.orelse)
    if isinstance(last, ast.With):
        return _ends_open(last.body)
    if isinstance(last, ast.Try):
        ways = [last.orelse or last.body, *(handler.body for handler in last.handlers)]
        return any(map(_ends_open, ways)) and (not last.finalbody or _ends_open(last.finalbody))
    if isinstance(last, ast.Match):
        has_default = any(
            isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
            for case in last.cases
        )
        return not has_default or any(_ends_open(case.body) for case in last.cases)
    if isinstance(last, ast.While):
        return not (isinstance(last.test, ast.Constant) and last.test.value is True)
    return True
