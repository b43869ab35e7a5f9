"""What a function's source does to the world, as far as its text shows it.

A function is *pure* until something in it is known to read, write, spawn, connect or evaluate; a
call that is not known makes it *opaque*: nothing is claimed about it. Functions and classes of the
same file are followed, also where they are only handed on (``map(os.remove, paths)``).
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Final

from sandboxed_tools.lint.definitions import Definitions
from sandboxed_tools.lint.known import (
    CONNECTS,
    EVALUATES,
    OPAQUE,
    OPENING,
    READS,
    SPAWNS,
    WRITES,
    kind_of,
    kind_of_method,
)
from sandboxed_tools.lint.scopes import External, FunctionNode, InstanceOf, Scope

__all__ = ["Effect", "Effects", "argument", "effects_of"]

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_CHANGES: Final = (WRITES, SPAWNS, CONNECTS, EVALUATES)
_MODE: Final = re.compile(r"[rwaxbtU+]{1,4}|[rwax][:|]\w*")
_WRITING_FLAGS: Final = re.compile(r"\bO_(WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)\b")
_SQL_READS: Final = re.compile(
    r"\s*(select|explain|pragma [^=]*\Z|with\b(?!.*\b(insert|update|delete)\b))",
    re.IGNORECASE | re.DOTALL,
)
_SQL_WRITES: Final = re.compile(
    r"\s*(alter|attach|begin|copy|create|delete|drop|grant|insert|merge|pragma|reindex|replace"
    r"|truncate|update|vacuum|with)\b",
    re.IGNORECASE,
)
_RUN_WITH_A_CLASS: Final = ("__init__", "__post_init__", "__enter__", "__exit__", "__aenter__")
_PATHS: Final = ("pathlib.Path.", "anyio.Path.", "trio.Path.")
_NAMESPACES: Final = ("vars", "globals", "locals")


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that a piece of source does: its kind, the call's own name, and the node."""

    kind: str
    name: str
    node: ast.AST


@dataclass(slots=True)
class Effects:
    """Everything found in one function and what it uses of the same file."""

    found: list[Effect] = field(default_factory=list)

    def of(self, *kinds: str) -> list[Effect]:
        return [effect for effect in self.found if effect.kind in kinds]

    @property
    def changes_something(self) -> list[Effect]:
        return self.of(*_CHANGES)

    @property
    def only_reads(self) -> bool:
        """Whether it reads something, and every call in it is known to change nothing."""
        return bool(self.of(READS)) and not self.of(OPAQUE) and not self.changes_something


def effects_of(expression: ast.expr, definitions: Definitions, scope: Scope) -> Effects:
    """The effects of calling what ``expression`` names, such as the value of ``call=``."""
    collector = _Collector(definitions)
    if isinstance(expression, ast.Call):  # partial(work, os.remove), logged(work)
        collector.run(expression, scope)
    collector.use(expression, scope)
    return collector.effects


class _Collector:
    def __init__(self, definitions: Definitions) -> None:
        self.effects = Effects()
        self._definitions = definitions
        self._seen: set[int] = set()
        self._no_value: set[int] = set()  # called, looked into, or compared with: not handed on

    def use(self, node: ast.expr, scope: Scope) -> None:
        """A function or class that is named without being called: somebody will call it."""
        for target in self._definitions.follow(node, scope):
            if isinstance(target, External):
                kind = kind_of(target.name)
                # A class or a constant is most often compared with.
                is_called = target.name.rpartition(".")[2][:1].islower()
                if kind in (READS, *_CHANGES) and is_called:
                    self._note(kind, target.name, node)
            elif isinstance(target, _FUNCTIONS):
                self._enter(target)
            elif isinstance(target, InstanceOf):
                self._enter_method(target, "__call__")

    def _note(self, kind: str | None, name: str, node: ast.AST) -> None:
        if kind is not None:
            self.effects.found.append(Effect(kind, name or "a call", node))

    def _enter(self, function: FunctionNode) -> None:
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        self.run(function, self._definitions.module)

    def run(self, node: ast.AST, scope: Scope) -> None:
        """Everything that happens when ``node`` is executed."""
        for part, inner in self._definitions.inside(node, scope):
            self._look_at(part, inner)

    def _enter_method(self, instance: InstanceOf, name: str) -> None:
        for target in self._definitions.member(instance, name):
            if isinstance(target, _FUNCTIONS):
                self._enter(target)

    def _look_at(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, ast.Call):
            self._no_value.add(id(node.func))
            if isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
                self._no_value.update(id(part) for item in node.args for part in ast.walk(item))
            self._call(node, scope)
        elif isinstance(node, ast.Name | ast.Attribute):
            if isinstance(node.ctx, ast.Load):
                self._reference(node, scope)
        elif (
            isinstance(node, ast.Subscript)
            and not isinstance(node.ctx, ast.Load)
            and External("os.environ") in self._definitions.follow(node.value, scope)
        ):
            self._note(WRITES, "os.environ", node)

    def _reference(self, node: ast.Name | ast.Attribute, scope: Scope) -> None:
        if isinstance(node, ast.Attribute):
            self._no_value.add(id(node.value))
            if node.attr == "__dict__" and any(
                isinstance(one, External) for one in self._definitions.follow(node.value, scope)
            ):
                self._note(EVALUATES, "__dict__", node)
        if id(node) not in self._no_value:
            self.use(node, scope)

    # ---- calls

    def _call(self, call: ast.Call, scope: Scope) -> None:
        targets = self._definitions.follow(call.func, scope)
        for target in targets:
            if isinstance(target, External):
                self._note(self._kind_of_call(call, target.name, scope), target.name, call)
            elif isinstance(target, _FUNCTIONS):
                self._enter(target)
            elif isinstance(target, ast.ClassDef):
                for name in _RUN_WITH_A_CLASS:
                    self._enter_method(InstanceOf(target), name)
            elif isinstance(target, InstanceOf):
                self._enter_method(target, "__call__")
        if not targets:
            name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            self._note(self._kind_of_method(call, name, scope), f".{name}" if name else "", call)

    def _kind_of_call(self, call: ast.Call, name: str, scope: Scope) -> str | None:
        if name in OPENING:
            mode = argument(call, OPENING[name], "mode")
            return OPAQUE if mode is None and _is_spread(call) else self._opened(mode, scope)
        last = name.rpartition(".")[2]
        if name == "os.open":
            return WRITES if any(map(_opens_to_write, call.args)) else READS
        if name == "getattr" and len(call.args) > 1:
            return self._got(call, scope)
        if name in _NAMESPACES:
            return EVALUATES if call.args or name == "globals" else OPAQUE
        if name in ("__import__", "importlib.import_module"):
            is_known = isinstance(self._definitions.literal(argument(call, 0, "name"), scope), str)
            return None if is_known else EVALUATES
        if name.startswith("yaml.load") and "SafeLoader" in ast.unparse(call):
            return None
        is_path = name.startswith(_PATHS) and last == "replace"
        if last in ("execute", "open") or is_path:
            return self._kind_of_method(call, last, scope)
        if name == "operator.methodcaller":
            return kind_of_method(str(self._definitions.literal(argument(call, 0, "name"), scope)))
        return kind_of(name)

    def _kind_of_method(self, call: ast.Call, name: str, scope: Scope) -> str | None:
        if name == "open":
            mode = argument(call, 0, "mode")
            text = self._definitions.literal(mode, scope)
            if isinstance(text, str) and not _MODE.fullmatch(text):
                return READS  # a member of an archive
            return self._opened(mode, scope)
        if name == "execute" and call.args:
            return self._executed(call.args[0], scope)
        if name == "replace" and len(call.args) == 1 and not call.keywords:
            # Path.replace; that of a text takes two.
            return OPAQUE if isinstance(call.args[0], ast.Dict) else WRITES
        return kind_of_method(name)

    def _opened(self, mode: ast.expr | None, scope: Scope) -> str:
        if mode is None:
            return READS
        text = self._definitions.literal(mode, scope)
        if isinstance(text, str):
            return WRITES if set(text) & set("wax+") else READS
        return OPAQUE

    def _got(self, call: ast.Call, scope: Scope) -> str | None:
        """getattr: what is got by a name that is made at run time may be anything there is."""
        if isinstance(self._definitions.literal(call.args[1], scope), str):
            return None
        modules = self._definitions.follow(call.args[0], scope)
        return EVALUATES if any(isinstance(one, External) for one in modules) else None

    def _executed(self, statement: ast.expr, scope: Scope) -> str:
        """A statement of SQL, by its beginning."""
        if isinstance(statement, ast.JoinedStr) and statement.values:
            statement = statement.values[0]
        text = self._definitions.literal(statement, scope)
        if not isinstance(text, str):
            return OPAQUE
        if _SQL_READS.match(text):
            return READS
        return WRITES if _SQL_WRITES.match(text) else OPAQUE


def argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """What a call gives for a parameter, by its name or position; ``None`` where it is not said."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[position] if len(call.args) > position else None


def _is_spread(call: ast.Call) -> bool:
    """Whether some arguments are in a list or dictionary: ``open(*names, **options)``."""
    is_starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return is_starred or any(keyword.arg is None for keyword in call.keywords)


def _opens_to_write(argument: ast.expr) -> bool:
    return _WRITING_FLAGS.search(ast.unparse(argument)) is not None
