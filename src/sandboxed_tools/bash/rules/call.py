"""What a rule is given: one call of one program, and the judgement as a whole so far."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sandboxed_tools.bash.options import Operands, OptionValue, Spec, match_options
from sandboxed_tools.bash.paths import PathUse, path_use, refuse_special_path
from sandboxed_tools.bash.syntax import Argument, Refused

__all__ = ["Call", "Context", "Rule", "is_version"]

_ATTACHED_PATH = re.compile(r"(-[A-Za-z0-9]+?)((?:/|\.\.).*)", re.DOTALL)
# Options with a file of its own after them, which stands before the first operand.
_FILE_FOLLOWS = re.compile(r"[ef]?grep --exclude-f[a-z-]*|jq (?:-[a-zA-Z]*L|--lib[a-z-]*)")
_TWO_VALUES = frozenset({"--arg", "--argjson"})


@dataclass(slots=True)
class Context:
    """One judgement under way: what was allowed, and what was learned about paths and git.

    ``opens_unknown``: a path is read that holds more unknown text than a pattern.
    ``judge`` judges the words of another command, for programs that start one.
    """

    trusted_workspace: bool
    extra: Mapping[str, Spec]
    judge: Callable[[Sequence[Argument], Context], None]
    paths: list[PathUse] = field(default_factory=list)
    git_calls: list[Argument] = field(default_factory=list)
    cd_targets: list[Argument] = field(default_factory=list)
    opens_unknown: bool = False
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
        use = path_use(argument, shape)
        if use is not None:
            self.context.paths.append(use)
        is_pattern = argument.relative or (argument.many and argument.head)
        if argument.literal is None and not is_pattern:
            self.context.opens_unknown = True

    def spec(self, spec: Spec) -> Operands:
        """Hold the arguments against a declaration, and note the paths among them."""
        found = match_options(spec, self.name, self.arguments)
        skip = spec.paths == "after_first" and not found.options & spec.first_given_by
        if spec.paths != "none":
            for argument in found.operands[skip:]:
                self.path(argument)
            for value in found.values:
                self._value_path(value, spec)
        return found

    def _value_path(self, value: OptionValue, spec: Spec) -> None:
        shape = value.shape
        if not _takes_text(value.option, spec) and (
            "/" in shape or shape == ".." or shape.startswith("~")
        ):
            self.path(value.argument, shape)

    def _unparsed_path(self, argument: Argument, spec: Spec) -> None:
        """Note a path inside an option of a program whose options are not told apart."""
        shape = argument.shape
        if shape.startswith("--"):
            option = shape.partition("=")[0]
            self._value_path(OptionValue(option, argument, len(option) + 1), spec)
        elif (match := _ATTACHED_PATH.match(shape)) is not None:
            self._value_path(OptionValue(match[1], argument, match.start(2)), spec)

    def anything(self, spec: Spec) -> None:
        """Accept every argument of a program that only reads, and note the paths among them."""
        if spec.paths == "none":
            return
        skip = spec.paths == "after_first" and not any(
            _may_be_one_of(argument.head, spec.first_given_by) for argument in self.arguments
        )
        texts = 0
        before = ""
        for argument in self.arguments:
            previous, before = before, argument.head
            if texts:
                texts -= 1
            elif argument.head.startswith("-"):
                self._unparsed_path(argument, spec)
                if argument.literal is not None and _takes_text(argument.literal, spec):
                    texts = 2 if argument.literal in _TWO_VALUES else 1
            elif skip and not _FILE_FOLLOWS.fullmatch(f"{self.name} {previous}"):
                skip = False
            else:
                self.path(argument)


def _takes_text(option: str, spec: Spec) -> bool:
    """Whether the value of the option, which may end a cluster of letters, names no file."""
    if option in spec.text or option.startswith("--"):
        return option in spec.text
    return "-" + option[-1:] in spec.text and set(option[1:-1]) <= set(spec.short)


def _may_be_one_of(head: str, options: frozenset[str]) -> bool:
    """Whether an argument may be one of these, abbreviated or in a cluster."""
    if head.startswith("--"):
        name = head.partition("=")[0]
        return name != "--" and any(option.startswith(name) for option in options)
    letters = {option[1] for option in options if len(option) == 2}
    return head.startswith("-") and not letters.isdisjoint(head[1:])


def is_version(call: Call) -> bool:
    """Whether the program is asked for nothing but its version or its help."""
    return [item.literal for item in call.arguments] in (["--version"], ["--help"])


Rule = Spec | Callable[[Call], None]
"""One entry of the table: a declaration, or a function that raises ``Refused``."""
