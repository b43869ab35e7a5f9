"""The names of one file, scope by scope, and what each is bound to."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["External", "FunctionNode", "InstanceOf", "Scope", "Scopes", "Typed"]

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class External:
    """Something from elsewhere, by its dotted name; what it returns has the name of what made it,
    so that ``Path(x).unlink`` is ``pathlib.Path.unlink``."""

    name: str


@dataclass(frozen=True, slots=True)
class InstanceOf:
    """An object of a class of this file."""

    kind: ast.ClassDef


@dataclass(frozen=True, slots=True)
class Typed:
    """A name of which only the type is known, by its annotation."""

    annotation: ast.expr


@dataclass(eq=False, slots=True)
class Scope:
    """The names of a module, class or function; ``None`` stands for a value that is not known."""

    parent: Scope | None = None
    is_class: bool = False
    names: dict[str, list[tuple[object, Scope]]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)

    def bind(self, name: str, value: object, *, scope: Scope | None = None) -> None:
        self.names.setdefault(name, []).append((value, scope or self))

    def find(self, name: str) -> list[tuple[object, Scope]] | None:
        """What a name is bound to, as Python looks it up: classes are not seen from inside."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names and (scope is self or not scope.is_class):
                return scope.names[name]
            scope = scope.parent
        return None

    def all_stars(self) -> Iterator[str]:
        scope: Scope | None = self
        while scope is not None:
            yield from scope.stars
            scope = scope.parent


class Scopes:
    """Every scope of a file, and what expressions in them lead to."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope()
        self._of: dict[int, Scope] = {}
        self._read(tree)

    def of(self, node: ast.AST, outer: Scope) -> Scope:
        """The scope inside ``node``; ``outer`` where it has none of its own."""
        return self._of.get(id(node), outer)

    def inside(self, node: ast.AST, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
        """Every node that runs with ``node``; annotations and types to catch do not."""
        pending = deque([(node, self.of(node, scope))])
        while pending:
            node, scope = pending.popleft()
            yield node, scope
            for name, value in ast.iter_fields(node):
                if name in ("annotation", "returns") or (
                    name == "type" and isinstance(node, ast.ExceptHandler)
                ):
                    continue
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        pending.append((child, self.of(child, scope)))

    # ---- reading

    def _read(self, tree: ast.AST) -> None:
        # Not recursive: a long sum is as deep a tree as it has terms.
        pending: deque[tuple[ast.AST, Scope]] = deque([(tree, self.module)])
        while pending:
            node, scope = pending.popleft()
            owner = node if isinstance(node, ast.ClassDef) else None
            for child in ast.iter_child_nodes(node):
                self._bind(child, scope)
                inner = scope
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                    inner = self._of[id(child)] = Scope(scope)
                    _bind_parameters(child, inner, owner)
                elif isinstance(child, ast.ClassDef):
                    inner = self._of[id(child)] = Scope(scope, is_class=True)
                pending.append((child, inner))

    def _bind(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            _bind_imports(node, scope)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            scope.bind(node.name, node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value, scope)
        elif isinstance(node, ast.AnnAssign):
            # The value of a model's field says how it is read, not what it is.
            stated = None if scope.is_class else node.value
            self._assign(node.target, stated or Typed(node.annotation), scope)
        elif isinstance(node, ast.NamedExpr):
            self._assign(node.target, node.value, scope)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._assign(node.optional_vars, node.context_expr, scope)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self._assign(node.target, None, scope)

    def _assign(self, target: ast.expr, value: object, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            scope.bind(target.id, value)
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            # self.client = …: an attribute of the class, made in the scope of its method.
            for owner, _ in scope.find(target.value.id) or ():
                if isinstance(owner, InstanceOf) and id(owner.kind) in self._of:
                    self._of[id(owner.kind)].bind(target.attr, value, scope=scope)
        elif isinstance(target, ast.Tuple | ast.List):
            for element in target.elts:
                self._assign(element, None, scope)


def _bind_parameters(function: FunctionNode, scope: Scope, owner: ast.ClassDef | None) -> None:
    arguments = function.args
    stated = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for argument in (*stated, arguments.vararg, arguments.kwarg):
        if argument is not None:
            annotation = argument.annotation
            scope.bind(argument.arg, None if annotation is None else Typed(annotation))
    decorators = [] if isinstance(function, ast.Lambda) else function.decorator_list
    is_static = any(isinstance(one, ast.Name) and one.id == "staticmethod" for one in decorators)
    if owner is not None and stated and not is_static and not isinstance(function, ast.Lambda):
        scope.names[stated[0].arg] = [(InstanceOf(owner), scope)]


def _bind_imports(node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            # A relative import keeps its dot: the author's own requests.py is not requests.
            module = "." * min(node.level, 1) + (node.module or "")
            full = f"{module}.{alias.name}" if node.module else f"{module}{alias.name}"
            if alias.name == "*":
                scope.stars.append(module)
            else:
                scope.bind(alias.asname or alias.name, External(full))
        elif alias.asname:
            scope.bind(alias.asname, External(alias.name))
        else:
            top = alias.name.split(".")[0]
            scope.bind(top, External(top))
