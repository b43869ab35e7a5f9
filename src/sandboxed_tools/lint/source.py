"""Finding tool definitions in source, without importing it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

__all__ = ["Module", "ToolSource", "read_module"]

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class ToolSource:
    """One ``build_tool(...)``: its call and its keywords. ``is_complete`` is false when keywords
    come from elsewhere (``**options``), so that nothing can be said of what is missing."""

    call: ast.Call
    keywords: Mapping[str, ast.expr]
    is_complete: bool

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
    imports: Mapping[str, str]
    functions: Mapping[str, FunctionNode]
    classes: Mapping[str, ast.ClassDef]

    def function(self, node: ast.expr | None) -> FunctionNode | None:
        """The function that an expression names, when it is in this file."""
        if isinstance(node, ast.Lambda):
            return node
        return self.functions.get(node.id) if isinstance(node, ast.Name) else None

    def model(self, tool: ToolSource) -> ast.ClassDef | None:
        """The input model of a tool, when it is in this file."""
        node = tool.keywords.get("input_schema")
        return self.classes.get(node.id) if isinstance(node, ast.Name) else None


def read_module(text: str, path: str) -> Module:
    """Parse one file.

    Raises:
        SyntaxError: the text is no Python; ``ValueError``: it holds NUL bytes.
    """
    tree = ast.parse(text, filename=path)
    imports: dict[str, str] = {}
    functions: dict[str, FunctionNode] = {}
    classes: dict[str, ast.ClassDef] = {}
    calls: list[ast.Call] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.update(_imported(node))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.setdefault(node.name, node)
        elif isinstance(node, ast.ClassDef):
            classes.setdefault(node.name, node)
        elif isinstance(node, ast.Call):
            calls.append(node)
    return Module(
        path=path,
        lines=tuple(text.split("\n")),
        tools=tuple(_tool(call) for call in calls if _builds_a_tool(call, imports)),
        imports=imports,
        functions=functions,
        classes=classes,
    )


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, f"{node.module or ''}.{alias.name}".lstrip(".")
        elif alias.asname:
            yield alias.asname, alias.name
        else:
            top = alias.name.split(".")[0]
            yield top, top


def _builds_a_tool(call: ast.Call, imports: Mapping[str, str]) -> bool:
    if isinstance(call.func, ast.Name):
        full = imports.get(call.func.id, call.func.id)
        return full.rpartition(".")[2] == "build_tool"
    return isinstance(call.func, ast.Attribute) and call.func.attr == "build_tool"


def _tool(call: ast.Call) -> ToolSource:
    keywords = {item.arg: item.value for item in call.keywords if item.arg is not None}
    return ToolSource(call, keywords, is_complete=len(keywords) == len(call.keywords))
