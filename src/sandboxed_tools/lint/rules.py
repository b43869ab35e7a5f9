"""The rules: each a function from one tool's source to findings."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from sandboxed_tools.lint.commands import effects_of_command
from sandboxed_tools.lint.effects import Effects, effects_of
from sandboxed_tools.lint.finding import RULES, Edit, Finding
from sandboxed_tools.lint.known import EVALUATES, READS, SPAWNS
from sandboxed_tools.lint.returns import may_return_bool, never_bool
from sandboxed_tools.lint.source import Module, ToolSource
from sandboxed_tools.tool.defaults import WORST_CASE
from sandboxed_tools.tool.flags import FLAG_NAMES

__all__ = ["check_tool"]

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_DECIDED_BY_INPUT = ("is_read_only", "needs_sandbox", "is_destructive", "requires_confirmation")
_CODE_FIELD = re.compile(
    r"(^|_)(code|script|command|cmd|argv|query|sql|statement|expression|expr|snippet|program|shell"
    r"|url|uri|link|href|endpoint)s?($|_)"
)
_PATH_FIELD = re.compile(r"(^|_)(path|file|filename|directory|dir|folder)s?($|_)")


def check_tool(module: Module, tool: ToolSource) -> Iterator[Finding]:
    """Every finding for one tool, in the order of the rules."""
    work = tool.keywords.get("call")
    effects = Effects() if work is None else effects_of(work, module.definitions, tool.scope)
    for rule in _RULE_FUNCTIONS:
        yield from rule(module, tool, effects)


def _finding(
    module: Module,
    tool: ToolSource,
    code: str,
    node: ast.AST | None = None,
    *,
    detail: str = "",
    fix: Edit | None = None,
) -> Finding:
    place: ast.AST = tool.call.func if node is None else node
    name = tool.name or "this tool"
    return Finding(
        code=code,
        message=f"{name} {RULES[code]}" + (f": {detail}" if detail else ""),
        path=module.path,
        line=place.lineno,  # type: ignore[attr-defined]
        column=_characters(module, place.lineno, place.col_offset),  # type: ignore[attr-defined]
        end_line=place.end_lineno,  # type: ignore[attr-defined]
        end_column=_characters(module, place.end_lineno, place.end_col_offset),  # type: ignore[attr-defined]
        tool=tool.name,
        fix=fix,
    )


def _characters(module: Module, line: int, byte_offset: int) -> int:
    """ast counts bytes of UTF-8; people and editors count characters."""
    return len(module.lines[line - 1].encode()[:byte_offset].decode("utf-8", "replace"))


def _stating(module: Module, tool: ToolSource, text: str) -> Edit | None:
    """State ``text`` as the last keyword, on a line of its own when the others have theirs."""
    keyword = tool.call.keywords[-1]
    if keyword.end_lineno is None or keyword.end_col_offset is None:
        return None
    column = _characters(module, keyword.end_lineno, keyword.end_col_offset)
    own_line = module.lines[keyword.lineno - 1][: keyword.col_offset].isspace()
    indent = "\n" + " " * keyword.col_offset if own_line else " "
    return Edit(keyword.end_lineno, column, f",{indent}{text}")


def _looks_read_only(module: Module, tool: ToolSource, effects: Effects) -> Iterator[Finding]:
    if tool.is_complete and "is_read_only" not in tool.keywords and effects.only_reads:
        yield _finding(module, tool, "STL101", fix=_stating(module, tool, "is_read_only=False"))


def _not_concurrent(module: Module, tool: ToolSource, effects: Effects) -> Iterator[Finding]:
    stated = "is_concurrency_safe" in tool.keywords
    if tool.is_complete and module.literal(tool, "is_read_only") is True and not stated:
        yield _finding(
            module, tool, "STL102", fix=_stating(module, tool, "is_concurrency_safe=False")
        )


def _false_claim(module: Module, tool: ToolSource, effects: Effects) -> Iterator[Finding]:
    node = tool.keywords.get("is_read_only")
    command = tool.keywords.get("command")
    if command is not None:
        effects = effects_of_command(command, module.definitions, tool.scope)
    if module.literal(tool, "is_read_only") is True:
        for effect in effects.changes_something[:1]:
            detail = f"{effect.name} on line {effect.node.lineno} {effect.kind}"  # type: ignore[attr-defined]
            yield _finding(module, tool, "STL103", node, detail=detail)


def _fixed_flag(module: Module, tool: ToolSource, effects: Effects) -> Iterator[Finding]:
    model = module.model(tool)
    if model is None:
        return
    names = [name for name, _ in _fields(module, model)]
    code = [name for name in names if _CODE_FIELD.search(name)]
    paths = [name for name in names if _PATH_FIELD.search(name)]
    contained = module.literal(tool, "needs_sandbox") is True
    for flag in _DECIDED_BY_INPUT:
        node = tool.keywords.get(flag)
        value = module.literal(tool, flag)
        # The worst case is safe whatever the input is; only a fixed promise is suspicious.
        # Looking at a path only looks, whatever the path is.
        fields = code if flag == "is_read_only" else [*code, *paths]
        if not isinstance(value, bool) or value is WORST_CASE[flag] or not fields:
            continue
        judged_by_its_work = effects.only_reads or effects.changes_something
        if flag == "is_read_only" and judged_by_its_work:
            continue
        if flag != "needs_sandbox" and contained:
            continue
        if flag == "needs_sandbox" and not effects.of(SPAWNS, EVALUATES):
            continue
        yield _finding(module, tool, "STL104", node, detail=f"{flag} and {fields[0]}")


def _uncontained(module: Module, tool: ToolSource, effects: Effects) -> Iterator[Finding]:
    # Under version 2 of the defaults, what is not read-only is contained unless it says otherwise.
    is_contained = "is_read_only" not in tool.keywords and module.literal(tool, "defaults") == 2
    if tool.is_complete and "needs_sandbox" not in tool.keywords and not is_contained:
        for effect in effects.of(SPAWNS, EVALUATES)[:1]:
            detail = f"{effect.name} on line {effect.node.lineno}"  # type: ignore[attr-defined]
            yield _finding(module, tool, "STL105", detail=detail)


def _bad_flag_function(module: Module, tool: ToolSource, effects: Effects) -> Iterator[Finding]:
    for flag in FLAG_NAMES:
        node = tool.keywords.get(flag)
        function = module.function(tool, node)
        if node is None:
            continue
        if function is None:
            if never_bool(node):
                yield _finding(module, tool, "STL106", node, detail=f"{flag} is no bool")
            continue
        if isinstance(function, ast.AsyncFunctionDef):
            yield _finding(module, tool, "STL106", node, detail=f"{flag} is a coroutine")
        elif not may_return_bool(function):
            yield _finding(module, tool, "STL106", node, detail=f"{flag} returns no bool")
        else:
            found = effects_of(node, module.definitions, tool.scope)
            for effect in [*found.of(READS), *found.changes_something][:1]:
                yield _finding(module, tool, "STL106", node, detail=f"{flag} calls {effect.name}")


def _open_model(module: Module, tool: ToolSource, effects: Effects) -> Iterator[Finding]:
    model = module.model(tool)
    if model is None:
        return
    for kind in module.definitions.line_of(model):
        extra = _extra(kind)
        inherits_open = extra is None and "BaseModel" in map(_last_name, kind.bases)
        if inherits_open or extra in ("allow", "ignore"):
            yield _finding(module, tool, "STL107", tool.keywords["input_schema"], detail=model.name)
        if inherits_open or extra is not None:
            return


def _last_name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def _extra(model: ast.ClassDef) -> object:
    """What the class itself says of fields that it does not name."""
    own = [node for node in model.body if not isinstance(node, ast.ClassDef | _FUNCTIONS)]
    settings = [node for node in model.body if _is_config(node)]
    for node in (part for top in (*model.keywords, *own, *settings) for part in ast.walk(top)):
        if isinstance(node, ast.keyword) and node.arg == "extra":
            return _constant(node.value)
        if isinstance(node, ast.Assign) and [_last_name(one) for one in node.targets] == ["extra"]:
            return _constant(node.value)
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "extra":
                    return _constant(value)
    return None


def _is_config(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef) and node.name == "Config"


def _constant(node: ast.expr) -> object:
    """A constant, or the name of an enumeration's member: ``Extra.allow``."""
    return node.value if isinstance(node, ast.Constant) else _last_name(node)


def _fields(module: Module, model: ast.ClassDef) -> Iterator[tuple[str, ast.AnnAssign]]:
    for kind in module.definitions.line_of(model):
        for node in kind.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                name, annotation = node.target.id, ast.unparse(node.annotation)
                if (
                    name != "model_config"
                    and not name.startswith("_")
                    and "ClassVar" not in annotation
                ):
                    yield name, node


def _undescribed(module: Module, tool: ToolSource, effects: Effects) -> Iterator[Finding]:
    description = tool.keywords.get("description")
    value = module.definitions.literal(description, tool.scope)
    empty = isinstance(value, str) and not value.strip()
    if empty or (description is None and tool.is_complete):
        yield _finding(module, tool, "STL108", description, detail="of the tool")
    model = module.model(tool)
    for name, node in _fields(module, model) if model is not None else ():
        if not _is_described(module, node):
            yield _finding(module, tool, "STL108", node, detail=f"of the field {name}")


def _is_described(module: Module, field: ast.AnnAssign) -> bool:
    """By a description that is not empty, in the field or in the type that it names."""
    places: list[ast.AST] = [field]
    for name in (node for node in ast.walk(field.annotation) if isinstance(node, ast.Name)):
        bound = module.definitions.module.find(name.id) or []
        places += [value for value, _ in bound if isinstance(value, ast.expr)]
    described = [
        node.value
        for place in places
        for node in ast.walk(place)
        if isinstance(node, ast.keyword) and node.arg == "description"
    ]
    return any(not isinstance(one, ast.Constant) or str(one.value).strip() for one in described)


def _unpinned(module: Module, tool: ToolSource, effects: Effects) -> Iterator[Finding]:
    if tool.is_complete and "defaults" not in tool.keywords:
        yield _finding(module, tool, "STL109", fix=_stating(module, tool, "defaults=1"))


_RULE_FUNCTIONS: tuple[Callable[[Module, ToolSource, Effects], Iterator[Finding]], ...] = (
    _looks_read_only,
    _not_concurrent,
    _false_claim,
    _fixed_flag,
    _uncontained,
    _bad_flag_function,
    _open_model,
    _undescribed,
    _unpinned,
)
