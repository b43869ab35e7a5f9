"""``[[ … ]]``: an allow-list of operators.

``-v`` and ``-R`` evaluate a subscript, ``-eq`` and its like evaluate both sides as arithmetic, in
which a variable's *value* is code; ``=~`` and ``==`` take patterns. bash(1), CONDITIONAL
EXPRESSIONS.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sandboxed_tools.bash.options import names
from sandboxed_tools.bash.words import make_arguments

if TYPE_CHECKING:
    from sandboxed_tools.bash.parser import Parser
    from sandboxed_tools.bash.syntax import Argument

__all__ = ["ARITHMETIC_OPERATORS", "FILE_OPERATORS", "UNARY_OPERATORS", "parse_conditional"]

UNARY_OPERATORS = names("-f -d -e -r -w -x -s -L -h -z -n -b -c -p -S -O -G -N -t -g -k -u")
FILE_OPERATORS = frozenset({"-nt", "-ot", "-ef"})
ARITHMETIC_OPERATORS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_ABOUT_TEXT = names("-z -n -t")
_STRING_OPERATORS = frozenset({"=", "==", "!="})
_REGEX = re.compile(
    r"(?:[A-Za-z0-9_^.|()*+?:/@,=%-]|\[[^\]\[\\$`'\"\s<>&;()|]+\]|\\[.*+?|()/\[\]^$-]|\$(?=[)| ]))+"
)
_NUMBER = re.compile(r"-?[0-9]{1,18}")


def parse_conditional(parser: Parser) -> None:
    """Parse up to and including ``]]``; the caller has taken ``[[``.

    Raises:
        Refused: an operator that is not in the allow-list, or invalid syntax.
    """
    _expression(parser, 0)
    parser.skip_lines()
    if not parser.text.startswith("]]", parser.position, parser.end):
        raise parser.refuse("syntax", "a conditional that does not end as it should")
    parser.position += 2


def _expression(parser: Parser, depth: int) -> None:
    if depth > 20:
        raise parser.refuse("too_deep", "a conditional nested too deeply")
    while True:
        parser.skip_lines()
        while parser.character() == "!" and parser.character(1) in (" ", "\t", "\n"):
            parser.position += 1
            parser.skip_lines()
        if parser.character() == "(":
            opening = parser.position
            parser.position += 1
            _expression(parser, depth + 1)
            parser.skip_lines()
            parser.close(opening)
        else:
            _primary(parser)
        parser.skip_lines()
        if not parser.text.startswith(("&&", "||"), parser.position, parser.end):
            return
        parser.position += 2


def _primary(parser: Parser) -> None:
    first = _operand(parser)
    if first.bare and first.literal is not None and re.fullmatch(r"-[A-Za-z]+", first.literal):
        if first.literal not in UNARY_OPERATORS:
            raise parser.refuse("construct", f"the operator {first.literal} in a conditional")
        operand = _operand(parser)
        if first.literal not in _ABOUT_TEXT:
            parser.script.tested.append(operand)
        return
    parser.skip_blanks()
    if parser.character() in ("<", ">"):
        parser.position += 1
        if parser.character() in ("(", "<", ">", "&", "|"):
            raise parser.refuse("construct", "an operator that is not known in a conditional")
        _operand(parser)
        return
    if parser.text.startswith(("]]", "&&", "||"), parser.position, parser.end) or (
        parser.character() in (")", "\n")
    ):
        return
    operator = _operand(parser)
    name = operator.literal if operator.bare else None
    parser.skip_blanks()
    if name == "=~":
        _regex(parser)
    elif name in _STRING_OPERATORS:
        _operand(parser)
    elif name in FILE_OPERATORS:
        parser.script.tested += [first, _operand(parser)]
    elif name in ARITHMETIC_OPERATORS:
        second = _operand(parser)
        if not (_is_number(first) and _is_number(second)):
            raise parser.refuse("construct", "a conditional that evaluates a value as arithmetic")
    else:
        raise parser.refuse("construct", "an operator that is not known in a conditional")


def _is_number(argument: Argument) -> bool:
    if argument.literal is not None:
        return bool(_NUMBER.fullmatch(argument.literal))
    return argument.number


def _operand(parser: Parser) -> Argument:
    parser.skip_blanks()
    begin = parser.position
    pieces = parser.word()
    if not pieces or parser.character() == "(":
        raise parser.refuse("syntax", "a conditional lacks an operand")
    # Braces are not expanded here, so several results only mean that there were braces.
    argument = make_arguments(pieces, begin, parser.position)[0]
    if argument.literal == "]]" and argument.bare:
        raise parser.refuse("syntax", "a conditional lacks an operand")
    return argument


def _regex(parser: Parser) -> None:
    if parser.character() in ("'", '"'):
        _operand(parser)
        return
    match = _REGEX.match(parser.text, parser.position, parser.end)
    if match is not None and parser.text[match.end() : match.end() + 1] in ("", " ", "\t", "\n"):
        if match[0].count("(") - match[0].count("\\(") != match[0].count(")") - match[0].count(
            "\\)"
        ):
            raise parser.refuse("construct", "a regular expression with unbalanced parentheses")
        parser.position = match.end()
        return
    _operand(parser)
