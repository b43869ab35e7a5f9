"""Which definition an expression leads to, as far as the text of one file shows."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from sandboxed_tools.lint.scopes import External, FunctionNode, InstanceOf, Scope, Scopes, Typed

__all__ = ["Definitions", "Target"]

_MAX_DEPTH: Final = 24
_MAX_TARGETS: Final = 16
_IMPORTING: Final = frozenset({"__import__", "importlib.import_module"})
_PATH_OF_PATH: Final = re.compile(
    r"(pathlib|anyio|trio)\.Path\.(absolute|expanduser|joinpath|resolve|with_(name|stem|suffix))"
)
_PARTIAL: Final = frozenset({"functools.partial", "functools.partialmethod"})

_DEFINITIONS = External | InstanceOf | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Target = External | InstanceOf | ast.ClassDef | FunctionNode


class Definitions(Scopes):
    """Follows expressions. What is too deep, too wide or goes in circles leads nowhere, so that a
    file costs time that grows with its length, whatever it holds."""

    def __init__(self, tree: ast.Module) -> None:
        super().__init__(tree)
        self._named: dict[tuple[int, str], tuple[Target, ...]] = {}
        self._depth = 0

    def follow(self, node: ast.expr | None, scope: Scope) -> tuple[Target, ...]:
        """Everything that an expression may be; empty where nothing of it is known."""
        if node is None or self._depth > _MAX_DEPTH:
            return ()
        self._depth += 1
        try:
            return _few(self._followed(node, scope))
        finally:
            self._depth -= 1

    def _followed(self, node: ast.expr, scope: Scope) -> Iterator[Target]:
        if isinstance(node, ast.Lambda):
            yield node
        elif isinstance(node, ast.Name):
            yield from self._by_name(node.id, scope)
        elif isinstance(node, ast.Attribute):
            for base in self.follow(node.value, scope):
                yield from self.member(base, node.attr)
        elif isinstance(node, ast.Call):
            yield from self._returned(node, scope)
        elif isinstance(node, ast.Subscript):
            name = self.literal(node.slice, scope)
            if isinstance(name, str) and External("sys.modules") in self.follow(node.value, scope):
                yield External(name)
        else:
            for part in _alternatives(node):
                yield from self.follow(part, scope)

    def _by_name(self, name: str, scope: Scope) -> tuple[Target, ...]:
        bound = scope.find(name)
        if bound is None:
            stars = () if hasattr(builtins, name) else scope.all_stars()
            return _few((External(name), *(External(f"{star}.{name}") for star in stars)))
        key = (id(bound), name)
        if key not in self._named:
            self._named[key] = ()  # while it is being followed: a circle adds nothing
            self._named[key] = _few(
                target for value, where in bound for target in self._of_value(value, where)
            )
        return self._named[key]

    def _of_value(self, value: object, scope: Scope) -> Iterable[Target]:
        if isinstance(value, _DEFINITIONS):
            return (value,)
        if isinstance(value, Typed):
            kinds = self.follow(value.annotation, scope)
            return [InstanceOf(kind) if isinstance(kind, ast.ClassDef) else kind for kind in kinds]
        return self.follow(value, scope) if isinstance(value, ast.expr) else ()

    def member(self, base: Target, name: str) -> Iterator[Target]:
        """What an attribute of it leads to; base classes of this file are looked at as well."""
        if isinstance(base, External):
            yield External(f"{base.name}.{name}")
        kind = base.kind if isinstance(base, InstanceOf) else base
        if not isinstance(kind, ast.ClassDef):
            return
        for one in self.line_of(kind):
            scope = self.of(one, self.module)
            if name in scope.names:
                yield from self._by_name(name, scope)
                return

    def line_of(self, kind: ast.ClassDef) -> Iterator[ast.ClassDef]:
        """A class and what it inherits from, as far as that is in this file."""
        pending, seen = [kind], set()
        while pending:
            one = pending.pop(0)
            if id(one) in seen:
                continue
            seen.add(id(one))
            yield one
            scope = self.of(one, self.module)
            for base in one.bases:
                found = self.follow(base, scope)
                pending += [parent for parent in found if isinstance(parent, ast.ClassDef)]

    def _returned(self, call: ast.Call, scope: Scope) -> Iterator[Target]:
        for target in self.follow(call.func, scope):
            if isinstance(target, ast.ClassDef):
                yield InstanceOf(target)
            elif isinstance(target, External):
                yield from self._returned_by(target, call, scope)

    def _returned_by(self, target: External, call: ast.Call, scope: Scope) -> Iterator[Target]:
        literals = [self.literal(argument, scope) for argument in call.args[:2]]
        if target.name in _PARTIAL and call.args:
            yield from self.follow(call.args[0], scope)
        elif target.name == "getattr" and len(literals) > 1 and isinstance(literals[1], str):
            for base in self.follow(call.args[0], scope):
                yield from self.member(base, literals[1])
        elif target.name in _IMPORTING and literals and isinstance(literals[0], str):
            yield External(literals[0])
        elif _PATH_OF_PATH.fullmatch(target.name):
            yield External(target.name.rpartition(".")[0])
        elif not target.name.startswith("os."):  # these return plain values
            yield target

    def literal(self, node: ast.expr | None, scope: Scope, depth: int = 0) -> object:
        """The value of a constant, also by a name that is bound once; ``None`` if it is none."""
        if isinstance(node, ast.Constant):
            return node.value
        if depth > _MAX_DEPTH:
            return None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            value = self.literal(node.operand, scope, depth + 1)
            return None if value is None else not value
        if isinstance(node, ast.Name):
            bound = scope.find(node.id) or []
            if len(bound) == 1 and isinstance(bound[0][0], ast.expr):
                return self.literal(bound[0][0], bound[0][1], depth + 1)
        return None


def _alternatives(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.BoolOp):
        return node.values
    return [node.value] if isinstance(node, ast.NamedExpr | ast.Await) else []


def _few(targets: Iterable[Target]) -> tuple[Target, ...]:
    return tuple(dict.fromkeys(islice(targets, _MAX_TARGETS)))
