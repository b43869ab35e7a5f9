"""What a rule is given: one call of one program, and the judgement as a whole so far."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sandboxed_tools.bash.options import Operands, OptionValue, Spec, match_options
from sandboxed_tools.bash.paths import PathUse, refuse_special_path
from sandboxed_tools.bash.syntax import Argument, Refused

__all__ = ["Call", "Context", "Rule"]

_ATTACHED_PATH = re.compile(r"-[A-Za-z0-9]+?((?:/|\.\.).*)", re.DOTALL)
_PATTERN_OPTIONS = frozenset({"-e", "--regexp", "--arg", "--argjson", "--pre-glob", "-g", "--glob"})


@dataclass(slots=True)
class Context:
    """One judgement under way: what was allowed, and what was learned about paths and git.

    ``judge`` judges the words of another command, for programs that start one.
    """

    trusted_workspace: bool
    extra: Mapping[str, Spec]
    judge: Callable[[Sequence[Argument], Context], None]
    paths: list[PathUse] = field(default_factory=list)
    git_calls: list[Argument] = field(default_factory=list)
    cd_targets: list[Argument] = field(default_factory=list)
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """``name`` as it is looked up in the table, the word that named it, and its arguments."""

    name: str
    word: Argument
    arguments: tuple[Argument, ...]
    context: Context

    def refuse(self, code: str, message: str, argument: Argument | None = None) -> Refused:
        where = argument or self.word
        return Refused(code, f"{self.name}: {message}", where.start, where.end)

    def literals(self) -> list[str]:
        """All arguments to the letter.

        Raises:
            Refused: at the first argument that is not known to the letter.
        """
        return [self.literal(argument) for argument in self.arguments]

    def literal(self, argument: Argument) -> str:
        if argument.literal is None:
            raise self.refuse("expansion", f"{argument.shape!r} is not known in advance", argument)
        return argument.literal

    def judge(self, words: Sequence[Argument]) -> None:
        """Judge the command that this one starts."""
        if not words:
            raise self.refuse("operand", "no command to run")
        self.context.depth += 1
        if self.context.depth > 10:
            raise self.refuse("too_deep", "programs that start programs, too deep")
        self.context.judge(words, self.context)
        self.context.depth -= 1

    def path(self, argument: Argument, shape: str | None = None) -> None:
        """Note a path that is read.

        Raises:
            Refused: reading it has an effect, or tells secrets of other processes.
        """
        text = argument.shape if shape is None else shape
        refuse_special_path(text, program=self.name, argument=argument)
        known = argument.literal is not None or (argument.tilde and "*" not in text)
        if not known:
            text = text.partition("*")[0].partition("?")[0].partition("[")[0]
        if text:
            self.context.paths.append(PathUse(text, argument.start, argument.end, known))

    def spec(self, spec: Spec) -> Operands:
        """Hold the arguments against a declaration, and note the paths among them."""
        found = match_options(spec, self.name, self.arguments)
        skip = 1 if spec.paths == "after_first" else 0
        if spec.paths != "none":
            for argument in found.operands[skip:]:
                self.path(argument)
            for value in found.values:
                self._value_path(value)
        return found

    def _value_path(self, value: OptionValue) -> None:
        shape = value.shape
        if value.option not in _PATTERN_OPTIONS and (
            "/" in shape or shape == ".." or shape.startswith("~")
        ):
            self.path(value.argument, shape)

    def _unparsed_path(self, argument: Argument) -> None:
        """Note a path inside an option of a program whose options are not told apart."""
        shape = argument.shape
        if shape.startswith("--"):
            self._value_path(OptionValue("", argument, len(shape.partition("=")[0]) + 1))
        elif (match := _ATTACHED_PATH.match(shape)) is not None:
            self._value_path(OptionValue("", argument, match.start(1)))

    def anything(self, spec: Spec) -> None:
        """Accept every argument of a program that only reads, and note the paths among them."""
        if spec.paths == "none":
            return
        skip = spec.paths == "after_first" and not any(
            argument.head.startswith(("-e", "-f", "--regexp", "--file", "--from-file"))
            for argument in self.arguments
        )
        previous = ""
        for argument in self.arguments:
            shape = argument.shape
            if previous in _PATTERN_OPTIONS:
                pass
            elif shape.startswith("-") and argument.head:
                self._unparsed_path(argument)
            elif skip:
                skip = False
            else:
                self.path(argument)
            previous = shape


Rule = Spec | Callable[[Call], None]
"""One entry of the table: a declaration, or a function that raises ``Refused``."""
