"""How a program's options are declared, and how arguments are held against the declaration.

The rule is GNU's getopt_long with every freedom that could surprise taken away: long options only
by their whole name (GNU accepts any unambiguous prefix: ``sort --compress-prog``), clusters only of
known letters, a value where and only where the option takes one. What is not declared is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sandboxed_tools.bash.syntax import Argument, Refused

__all__ = ["Operands", "OptionValue", "Spec", "match_options", "names"]

_NUMERIC = re.compile(r"-[0-9]+")
_NUMBER_OR_DASH = re.compile(r"-(?:[0-9]+(?:\.[0-9]+)?)?")
_ALWAYS = frozenset({"--help", "--version"})


def names(text: str) -> frozenset[str]:
    """The words of ``text``, for tables that should read as prose does."""
    return frozenset(text.split())


Paths = Literal["all", "none", "after_first"]


@dataclass(frozen=True, slots=True)
class Spec:
    """What one program may be given and still only read.

    ``short`` are letters of options without a value, which may be clustered; ``short_value`` those
    with one; ``short_optional`` those whose value, if any, is attached. ``long``, ``long_value``
    and ``long_optional`` are the same for whole names without the two dashes. ``attached=False``: a
    value never follows its letter directly (tree: ``-Lo 1 f`` means ``-o f``). ``cluster=False``:
    one letter an argument. ``numeric``: ``-5`` is accepted. ``max_operands``: more are refused
    (``uniq`` writes to its second); ``words``: only these operands. ``plus=False``: operands that
    begin with ``+`` are refused (``less +cmd``); ``at=False``: with ``@`` (binutils read options
    from such a file). ``permute=False``: options end at the first operand. ``requires``: at least
    one of these options must be there. ``unknown``: ``any`` accepts whatever an expansion brings,
    ``operand`` accepts it where it can not be an option, ``never`` only known text. ``anything``
    accepts every argument unseen. ``paths`` says which operands name files, for the rules about
    paths. ``dashed`` are options whose value, as an argument of its own, may begin with a dash:
    elsewhere it may not, because a version of the program in which the option takes no value
    would read it as an option. ``text`` are options whose value names no file, and
    ``first_given_by`` those that stand for the first operand, so that the rules about paths neither
    take a delimiter ``/`` for a folder nor miss a file.
    """

    short: str = ""
    short_value: str = ""
    short_optional: str = ""
    long: frozenset[str] = frozenset()
    long_value: frozenset[str] = frozenset()
    long_optional: frozenset[str] = frozenset()
    attached: bool = True
    cluster: bool = True
    numeric: bool = False
    max_operands: int | None = None
    words: frozenset[str] | None = None
    plus: bool = True
    at: bool = True
    permute: bool = True
    requires: frozenset[str] = frozenset()
    unknown: Literal["never", "operand", "any"] = "operand"
    anything: bool = False
    paths: Paths = "all"
    dashed: frozenset[str] = frozenset()
    text: frozenset[str] = frozenset()
    first_given_by: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class OptionValue:
    """The value of an option; ``attached`` characters of ``argument`` are the option itself."""

    option: str
    argument: Argument
    attached: int = 0

    @property
    def literal(self) -> str | None:
        text = self.argument.literal
        return None if text is None else text[self.attached :]

    @property
    def head(self) -> str:
        return self.argument.head[self.attached :]

    @property
    def shape(self) -> str:
        return self.argument.shape[self.attached :]


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of a call, and which of its options were there, by letter or long name."""

    operands: tuple[Argument, ...]
    options: frozenset[str]
    values: tuple[OptionValue, ...]


class _Matcher:
    def __init__(self, spec: Spec, name: str, arguments: Iterable[Argument]) -> None:
        self.spec = spec
        self.name = name
        self.arguments = list(arguments)
        self.operands: list[Argument] = []
        self.options: set[str] = set()
        self.values: list[OptionValue] = []
        self.ended = False
        self.index = 0

    def refuse(self, argument: Argument, message: str, code: str = "option") -> Refused:
        return Refused(code, f"{self.name}: {message}", argument.start, argument.end)

    def run(self) -> Operands:
        while self.index < len(self.arguments):
            argument = self.arguments[self.index]
            self.index += 1
            text = argument.literal
            if text is None:
                self.unknown(argument)
            elif self.ended or text == "-" or not text.startswith("-"):
                self.operand(argument)
            elif text == "--":
                self.ended = True
            elif text.startswith("--"):
                self.long(argument, text)
            else:
                self.short(argument, text, complete=True)
        if self.spec.requires and not (self.spec.requires & self.options):
            needed = ", ".join(sorted(self.spec.requires))
            raise Refused("option", f"{self.name}: only reads with one of: {needed}", *self._span())
        return Operands(tuple(self.operands), frozenset(self.options), tuple(self.values))

    def _span(self) -> tuple[int, int]:
        if not self.arguments:
            return 0, 0
        return self.arguments[0].start, self.arguments[-1].end

    def operand(self, argument: Argument) -> None:
        spec = self.spec
        text = argument.literal
        if spec.words is not None and (text is None or text not in spec.words):
            raise self.refuse(argument, f"the operand {argument.shape!r} is not known", "operand")
        if not spec.plus and argument.may_begin_with("+"):
            raise self.refuse(argument, "an operand that begins with + is a command", "operand")
        if not spec.at and argument.may_begin_with("@"):
            raise self.refuse(argument, "an operand that begins with @ names options", "operand")
        self.operands.append(argument)
        most = spec.max_operands
        if most is not None and (len(self.operands) > most or not argument.is_one_word):
            raise self.refuse(argument, f"takes at most {most} operands to only read", "operand")
        if not spec.permute:
            self.ended = True

    def unknown(self, argument: Argument) -> None:
        spec = self.spec
        if spec.unknown == "any":
            self.operands.append(argument)
            return
        if spec.unknown == "operand":
            if self.ended or not argument.may_begin_with("-"):
                self.operand(argument)
                return
            head = argument.head
            name, equals, _ = head[2:].partition("=")
            if (
                equals
                and head.startswith("--")
                and not argument.splits
                and name in spec.long_value | spec.long_optional
            ):
                self.options.add("--" + name)
                self.values.append(OptionValue("--" + name, argument, len(name) + 3))
                return
            if len(head) > 2 and head[1] != "-" and not argument.splits:
                self.short(argument, head, complete=False)
                return
        raise self.refuse(
            argument,
            f"{argument.shape!r} is not known in advance and may be an option",
            "expansion",
        )

    def value(self, option: str, argument: Argument) -> None:
        if self.index >= len(self.arguments):
            raise self.refuse(argument, f"the option {option} lacks its value")
        value = self.arguments[self.index]
        if not value.is_one_word or (self.spec.unknown == "never" and value.literal is None):
            raise self.refuse(value, f"the value of {option} may become several words", "expansion")
        if option not in self.spec.dashed and (
            value.may_begin_with("-") and not _NUMBER_OR_DASH.fullmatch(value.literal or "?")
        ):
            raise self.refuse(value, f"the value of {option} may be taken for an option")
        if not self.spec.at and value.may_begin_with("@"):
            raise self.refuse(value, "an argument that begins with @ names options")
        self.values.append(OptionValue(option, value))
        self.index += 1

    def long(self, argument: Argument, text: str) -> None:
        spec = self.spec
        name, equals, _ = text[2:].partition("=")
        option = "--" + name
        if equals and name in (spec.long_value | spec.long_optional):
            self.values.append(OptionValue(option, argument, len(option) + 1))
        elif not equals and name in spec.long_value:
            self.value(option, argument)
        elif equals or not (name in spec.long or name in spec.long_optional or option in _ALWAYS):
            raise self.refuse(argument, f"the option {option} is not known to only read")
        self.options.add(option)

    def short(self, argument: Argument, text: str, *, complete: bool) -> None:
        """Walk a cluster; ``complete=False``: the text goes on with something unknown."""
        spec = self.spec
        if spec.numeric and _NUMERIC.fullmatch(text) and complete:
            return
        if not spec.cluster and len(text) > 2 and text[1] not in spec.short_value:
            raise self.refuse(argument, f"the option {text} is not known to only read")
        last = len(text) - 1
        for position in range(1, len(text)):
            letter = text[position]
            option = "-" + letter
            if letter in spec.short:
                self.options.add(option)
                continue
            if letter in spec.short_value:
                self.options.add(option)
                if position < last:
                    if not spec.attached and not (complete and text[position + 1 :].isdigit()):
                        raise self.refuse(argument, f"a value attached to {option}")
                    self.values.append(OptionValue(option, argument, position + 1))
                    return
                if not complete:
                    break
                self.value(option, argument)
                return
            if letter in spec.short_optional and (complete or position < last):
                self.options.add(option)
                return
            raise self.refuse(argument, f"the option {option} is not known to only read")
        if not complete:
            raise self.refuse(argument, "options that are not known in advance", "expansion")


def match_options(spec: Spec, name: str, arguments: Iterable[Argument]) -> Operands:
    """Hold ``arguments`` against ``spec``.

    Raises:
        Refused: with code ``option``, ``operand`` or ``expansion``, at the argument's span.
    """
    return _Matcher(spec, name, arguments).run()
