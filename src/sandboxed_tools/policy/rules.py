"""Permission rules: ``Tool`` or ``Tool(pattern)``; deny before ask before allow.

What a pattern means depends on the tool. For Bash it is a command (:mod:`.command_rules`), matched
against every part of a compound command. For a tool that says which paths it touches, and for the
file tools, it is a path pattern (:mod:`.path_rules`). For any other tool it is text with ``*`` for
anything, matched against its ``permission_pattern``.

What cannot be told is never allowed and always asked or denied: a command that cannot be parsed, a
tool whose function raises, a tool that offers nothing that its pattern could be matched against.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import PurePath
from typing import Final, Literal

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.policy.command_parts import CommandParts, split_command
from sandboxed_tools.policy.command_rules import (
    CommandPattern,
    command_pattern,
    suggested_pattern,
)
from sandboxed_tools.policy.path_rules import PathPattern, TouchedPath, path_pattern, touched_path
from sandboxed_tools.tool import AnyTool, ToolInput, for_terminal

__all__ = ["Behavior", "Rule", "RuleSet", "RuleVerdict", "Scope", "suggested_rules"]

Behavior = Literal["deny", "ask", "allow"]

_RULE: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,63})(?:\((.*)\))?", re.DOTALL)
_MAX_CHARS: Final = 4000
_FILE_TOOLS: Final = frozenset({"Edit", "Glob", "Grep", "Read", "Write"})


@dataclass(frozen=True, slots=True)
class Scope:
    """Where relative paths of rules and calls start: the workspace, and the current directory."""

    workspace: PurePath | None = None
    cwd: PurePath | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule and the layer that it comes from; ``pattern`` is ``None`` for every use."""

    tool: str
    pattern: str | None = None
    layer: str = "session"

    @classmethod
    def parse(cls, text: object, *, layer: str = "session") -> Rule:
        """Read ``Bash(git status:*)``.

        Raises:
            ConfigurationError: it is no rule, or its pattern is none for that tool.
        """
        if not isinstance(text, str):
            raise ConfigurationError("A rule is text: Tool or Tool(pattern).")
        shown = for_terminal(text[:200], one_line=True)
        match = _RULE.fullmatch(text.strip())
        if match is None or len(text) > _MAX_CHARS:
            raise ConfigurationError(f"{shown!r} is no rule; write Tool or Tool(pattern).")
        tool, pattern = match.groups()
        if pattern is not None and (not pattern.strip() or not pattern.isprintable()):
            raise ConfigurationError(
                f"The pattern of {shown!r} is empty or holds characters that cannot be printed; "
                f"write {tool} for every use."
            )
        if pattern is not None and tool == "Bash":
            command_pattern(pattern)
        elif pattern is not None and tool in _FILE_TOOLS:
            path_pattern(pattern)
        return cls(tool, pattern, layer)

    def __str__(self) -> str:
        return self.tool if self.pattern is None else f"{self.tool}({self.pattern})"

    def of_layer(self, layer: str) -> Rule:
        """The same rule, said by another layer."""
        return self if layer == self.layer else replace(self, layer=layer)


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """What the rules say of one call, and which of them: several where parts needed several."""

    behavior: Behavior
    rules: tuple[Rule, ...]
    message: str

    @property
    def rule(self) -> str:
        return ", ".join(dict.fromkeys(str(rule) for rule in self.rules))

    @property
    def layer(self) -> str:
        return ", ".join(dict.fromkeys(rule.layer for rule in self.rules))

    def rests_on(self, layers: Iterable[str]) -> bool:
        """Whether every rule that it needs comes from one of ``layers``."""
        return {rule.layer for rule in self.rules} <= set(layers)


class RuleSet:
    """Immutable rules, indexed by the name of their tool."""

    def __init__(
        self,
        *,
        deny: Iterable[Rule] = (),
        ask: Iterable[Rule] = (),
        allow: Iterable[Rule] = (),
    ) -> None:
        self._by_tool: dict[str, dict[Behavior, _Rules]] = {}
        stated: tuple[tuple[Behavior, Iterable[Rule]], ...] = (
            ("deny", deny),
            ("ask", ask),
            ("allow", allow),
        )
        for behavior, rules in stated:
            for rule in rules:
                kinds = self._by_tool.setdefault(
                    rule.tool, {"deny": _Rules(), "ask": _Rules(), "allow": _Rules()}
                )
                kinds[behavior].add(rule)

    def verdict(self, tool: AnyTool, tool_input: ToolInput, scope: Scope) -> RuleVerdict | None:
        """The strictest verdict of all rules for this call; ``None`` where none matches.

        Never raises. A rule may name the tool or any of its aliases.
        """
        found = [
            self._by_tool[name] for name in (tool.name, *tool.aliases) if name in self._by_tool
        ]
        if not found:
            return None
        subject = _subject(tool, tool_input, scope)
        programs = subject.programs()
        for behavior, message in _STRICT:
            for kinds in found:
                for rule in kinds[behavior].about(programs):
                    if subject.may_match(rule):
                        return RuleVerdict(behavior, (rule,), message)
        allowing = subject.allowing(
            [rule for kinds in found for rule in kinds["allow"].about(programs)]
        )
        return RuleVerdict("allow", allowing, "a rule allows it") if allowing else None


class _Rules:
    """Rules of one kind for one tool; those for commands also by the program that they name."""

    def __init__(self) -> None:
        self._all: list[Rule] = []
        self._by_program: dict[str, list[Rule]] = {}
        self._of_any: list[Rule] = []

    def add(self, rule: Rule) -> None:
        self._all.append(rule)
        pattern = _command_pattern(rule.pattern) if rule.tool == "Bash" else None
        if pattern is not None and pattern.program is not None:
            self._by_program.setdefault(pattern.program, []).append(rule)
        else:
            self._of_any.append(rule)

    def about(self, programs: frozenset[str] | None) -> list[Rule]:
        """The rules that could match one of these programs; all of them for ``None``."""
        if programs is None:
            return self._all
        by_program = self._by_program
        named = [rule for program in programs for rule in by_program.get(program, ())]
        return [*self._of_any, *named] if named else self._of_any


_STRICT: Final[tuple[tuple[Behavior, str], ...]] = (
    ("deny", "a rule denies it"),
    ("ask", "a rule wants it to be confirmed"),
)


def suggested_rules(tool: AnyTool, tool_input: ToolInput, scope: Scope) -> tuple[Rule, ...]:
    """The narrowest allow rules that would answer this very question; empty where none can."""
    subject = _subject(tool, tool_input, scope)
    patterns = subject.patterns()
    if patterns is None:
        return ()
    try:
        rules = tuple(Rule.parse(f"{tool.name}({pattern})") for pattern in patterns)
    except ConfigurationError:
        return ()
    return rules if rules and subject.allowing(list(rules)) else ()


class _Subject:
    """What rules are matched against. This one offers nothing: no pattern is sure to match."""

    def programs(self) -> frozenset[str] | None:
        """The base names of every program that is named anywhere; ``None`` where rules are not
        chosen by it."""
        return None

    def may_match(self, rule: Rule) -> bool:
        return True

    def allowing(self, rules: list[Rule]) -> tuple[Rule, ...]:
        """The rules that together allow the call; empty where they do not."""
        return tuple(rule for rule in rules if rule.pattern is None)[:1]

    def patterns(self) -> tuple[str, ...] | None:
        return None


class _Commands(_Subject):
    def __init__(self, parts: CommandParts) -> None:
        self._parts = parts

    def programs(self) -> frozenset[str] | None:
        return None if self._parts.is_opaque else self._parts.programs

    def may_match(self, rule: Rule) -> bool:
        pattern = _command_pattern(rule.pattern)
        if pattern is None or self._parts.is_opaque or self._parts.parts is None:
            return True
        return any(map(pattern.may_match, (*self._parts.parts, *self._parts.hidden)))

    def allowing(self, rules: list[Rule]) -> tuple[Rule, ...]:
        if self._parts.parts is None:
            return ()
        chosen: list[Rule] = []
        for part in self._parts.parts:
            if part.has_unknown_program:
                return ()
            for rule in rules:
                pattern = _command_pattern(rule.pattern)
                if rule.pattern is None or (pattern is not None and pattern.surely_matches(part)):
                    chosen.append(rule)
                    break
            else:
                return ()
        return tuple(chosen)

    def patterns(self) -> tuple[str, ...] | None:
        suggested = [suggested_pattern(part) for part in self._parts.parts or ()]
        known = tuple(dict.fromkeys(pattern for pattern in suggested if pattern is not None))
        return known if None not in suggested else None


class _Paths(_Subject):
    def __init__(self, paths: tuple[TouchedPath, ...]) -> None:
        self._paths = paths

    def may_match(self, rule: Rule) -> bool:
        pattern = _path_pattern(rule.pattern)
        return pattern is None or any(map(pattern.may_match, self._paths))

    def allowing(self, rules: list[Rule]) -> tuple[Rule, ...]:
        chosen: list[Rule] = []
        for path in self._paths:
            for rule in rules:
                pattern = _path_pattern(rule.pattern)
                if rule.pattern is None or (pattern is not None and pattern.surely_matches(path)):
                    chosen.append(rule)
                    break
            else:
                return ()
        return tuple(chosen)

    def patterns(self) -> tuple[str, ...] | None:
        if any(path.climbs for path in self._paths):
            return None
        return tuple(re.sub(r"([\\*?\[\]])", r"\\\1", path.spellings[0]) for path in self._paths)


class _Text(_Subject):
    def __init__(self, text: str) -> None:
        self._value = text

    def may_match(self, rule: Rule) -> bool:
        return rule.pattern is None or _text_regex(rule.pattern).fullmatch(self._value) is not None

    def allowing(self, rules: list[Rule]) -> tuple[Rule, ...]:
        return tuple(rule for rule in rules if self.may_match(rule))[:1]

    def patterns(self) -> tuple[str, ...] | None:
        return None if "*" in self._value else (self._value,)


def _subject(tool: AnyTool, tool_input: ToolInput, scope: Scope) -> _Subject:
    stated = tool.stated
    try:
        if tool.name == "Bash":
            return _Commands(split_command(tool.permission_pattern(tool_input)))
        if stated & {"paths_read", "paths_written"}:
            paths = (*tool.paths_read(tool_input), *tool.paths_written(tool_input))
            touched = tuple(
                touched_path(path, workspace=scope.workspace, cwd=scope.cwd) for path in paths
            )
            return _Paths(touched) if touched else _Subject()
        if "permission_pattern" in stated:
            return _Text(tool.permission_pattern(tool_input))
    except (Exception, SystemExit):  # noqa: BLE001  (an author's code: nothing is known of this call)
        return _Subject()
    return _Subject()


def _path_pattern(pattern: str | None) -> PathPattern | None:
    """A compiled pattern; ``None`` where there is none, or it cannot be one of paths."""
    try:
        return None if pattern is None else path_pattern(pattern)
    except ConfigurationError:
        return None


def _command_pattern(pattern: str | None) -> CommandPattern | None:
    try:
        return None if pattern is None else command_pattern(pattern)
    except ConfigurationError:
        return None


@lru_cache(maxsize=4096)
def _text_regex(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
