"""Finding tool definitions in source, without importing it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from sandboxed_tools.lint.definitions import Definitions
from sandboxed_tools.lint.scopes import External, FunctionNode, Scope

__all__ = ["Module", "ToolSource", "read_module"]


@dataclass(frozen=True, slots=True)
class ToolSource:
    """One ``build_tool(...)``: its call, its keywords, and where it stands. ``is_complete`` is
    false when keywords come from elsewhere (``**options``), so that nothing can be said of what is
    missing."""

    call: ast.Call
    keywords: Mapping[str, ast.expr]
    is_complete: bool
    scope: Scope

    @property
    def name(self) -> str:
        value = self.keywords.get("name")
        return str(value.value) if isinstance(value, ast.Constant) else ""


@dataclass(frozen=True, slots=True)
class Module:
    """One parsed file: its tools, and what their definitions may refer to."""

    path: str
    lines: tuple[str, ...]
    tools: tuple[ToolSource, ...]
    definitions: Definitions

    def function(self, tool: ToolSource, node: ast.expr | None) -> FunctionNode | None:
        """The function that an expression of the definition names, when it is in this file."""
        for target in self.definitions.follow(node, tool.scope):
            if isinstance(target, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                return target
        return None

    def literal(self, tool: ToolSource, name: str) -> object:
        """The constant that a keyword has for every input; ``None`` if it is none."""
        node = tool.keywords.get(name)
        function = self.function(tool, node)
        if isinstance(function, ast.Lambda) and isinstance(function.body, ast.Constant):
            return function.body.value
        return self.definitions.literal(node, tool.scope)

    def model(self, tool: ToolSource) -> ast.ClassDef | None:
        """The input model of a tool, when it is in this file."""
        for target in self.definitions.follow(tool.keywords.get("input_schema"), tool.scope):
            if isinstance(target, ast.ClassDef):
                return target
        return None


def read_module(text: str, path: str) -> Module:
    """Parse one file.

    Raises:
        SyntaxError: the text is no Python; ``ValueError``: it holds NUL bytes.
    """
    tree = ast.parse(text, filename=path)
    definitions = Definitions(tree)
    tools = tuple(
        _tool(node, scope)
        for node, scope in definitions.inside(tree, definitions.module)
        if isinstance(node, ast.Call) and node.keywords and _builds_a_tool(node, definitions, scope)
    )
    return Module(path=path, lines=tuple(text.split("\n")), tools=tools, definitions=definitions)


def _builds_a_tool(call: ast.Call, definitions: Definitions, scope: Scope) -> bool:
    if isinstance(call.func, ast.Attribute) and call.func.attr == "build_tool":
        return True
    found = definitions.follow(call.func, scope)
    is_partial = External("functools.partial") in found
    return not is_partial and any(
        isinstance(one, External) and one.name.rpartition(".")[2] == "build_tool" for one in found
    )


def _tool(call: ast.Call, scope: Scope) -> ToolSource:
    stated = [*_stated_before(call.func, scope), *call.keywords]
    keywords: dict[str, ast.expr] = {}
    is_complete = True
    for keyword in stated:
        if keyword.arg is not None:
            keywords[keyword.arg] = keyword.value
            continue
        unpacked = _unpacked(keyword.value, scope)
        is_complete = is_complete and unpacked is not None
        keywords |= unpacked or {}
    return ToolSource(call, keywords, is_complete, scope)


def _stated_before(function: ast.expr, scope: Scope) -> list[ast.keyword]:
    """What ``partial(build_tool, defaults=1)`` states already."""
    made = _value_of(function, scope)
    return made.keywords if isinstance(made, ast.Call) else []


def _unpacked(node: ast.expr, scope: Scope) -> dict[str, ast.expr] | None:
    """The keywords of ``**node``, where it is a dictionary that is written out."""
    made = _value_of(node, scope)
    if isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and made.func.id == "dict":
        named = {one.arg: one.value for one in made.keywords if one.arg is not None}
        return named if len(named) == len(made.keywords) and not made.args else None
    if not isinstance(made, ast.Dict):
        return None
    keywords: dict[str, ast.expr] = {}
    for key, value in zip(made.keys, made.values, strict=True):
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            return None
        keywords[key.value] = value
    return keywords


def _value_of(node: ast.expr, scope: Scope) -> object:
    """The expression that a name is bound to once, or the expression itself."""
    if not isinstance(node, ast.Name):
        return node
    bound = scope.find(node.id) or []
    return bound[0][0] if len(bound) == 1 else None
