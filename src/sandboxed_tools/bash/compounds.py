"""Groups, ``if``, loops, ``case`` and ``[[``: bash(1), COMPOUND COMMANDS."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from sandboxed_tools.bash.conditionals import parse_conditional
from sandboxed_tools.bash.syntax import Assignment
from sandboxed_tools.bash.words import begins_plainly

if TYPE_CHECKING:
    from sandboxed_tools.bash.parser import Parser

__all__ = ["COMPOUNDS"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SEPARATORS = frozenset(" \t\n;|&<>()")


def _group(parser: Parser) -> None:
    parser.parse_list(frozenset({"}"}), closing="")
    parser.expect("}")


def _if(parser: Parser) -> None:
    parser.parse_list(frozenset({"then"}), closing="")
    parser.expect("then")
    while True:
        parser.parse_list(frozenset({"elif", "else", "fi"}), closing="")
        word = parser.reserved()
        parser.expect(word)
        if word == "elif":
            parser.parse_list(frozenset({"then"}), closing="")
            parser.expect("then")
        elif word == "else":
            parser.parse_list(frozenset({"fi"}), closing="")
            parser.expect("fi")
            return
        else:
            return


def _loop(parser: Parser) -> None:
    parser.parse_list(frozenset({"do"}), closing="")
    _do(parser)


def _do(parser: Parser) -> None:
    parser.expect("do")
    parser.parse_list(frozenset({"done"}), closing="")
    parser.expect("done")


def _for(parser: Parser) -> None:
    parser.skip_blanks()
    match = _NAME.match(parser.text, parser.position, parser.end)
    if match is None:
        raise parser.refuse("construct", "a for loop without a plain name")
    parser.script.names.append(Assignment(match[0], None, match.start(), match.end()))
    parser.position = match.end()
    if parser.character() not in _SEPARATORS:
        raise parser.refuse("construct", "a for loop without a plain name")
    parser.skip_lines()
    plain = parser.reserved() == "in"
    if plain:
        parser.position += 2
        parser.skip_blanks()
        while (arguments := parser.word_arguments()) is not None:
            parser.script.values += arguments
            plain = plain and all(begins_plainly(argument) for argument in arguments)
            if any(argument.literal is None for argument in arguments):
                parser.script.unknown.add(match[0])
            parser.skip_blanks()
    parser.script.starts.append((match[0], plain))
    if parser.character() == ";":
        parser.position += 1
    elif parser.character() != "\n" and parser.reserved() != "do":
        raise parser.refuse("syntax", "the words of a for loop do not end as they should")
    parser.skip_lines()
    _do(parser)


def _case(parser: Parser) -> None:
    parser.skip_blanks()
    if not parser.word():
        raise parser.refuse("syntax", "a case without a word")
    parser.skip_lines()
    parser.expect("in")
    parser.skip_lines()
    while parser.reserved() != "esac":
        if parser.character() == "(":
            parser.position += 1
            parser.skip_blanks()
        while True:
            if not parser.word():
                raise parser.refuse("syntax", "a case without a pattern")
            parser.skip_blanks()
            if parser.character() != "|":
                break
            parser.position += 1
            parser.skip_blanks()
        parser.close(parser.position)
        _clause(parser)
    parser.position += len("esac")


def _clause(parser: Parser) -> None:
    parser.skip_lines()
    if parser.character() != ";":
        parser.parse_list(frozenset({"esac"}), closing=";;")
    if parser.text.startswith(";;", parser.position, parser.end):
        parser.position += 2
        if parser.character() == "&":
            raise parser.refuse("construct", "a case that falls through")
        parser.skip_lines()
    elif parser.reserved() != "esac":
        raise parser.refuse("syntax", "a clause of a case does not end as it should")


COMPOUNDS: Mapping[str, Callable[[Parser], None]] = MappingProxyType(
    {
        "{": _group,
        "if": _if,
        "while": _loop,
        "until": _loop,
        "for": _for,
        "case": _case,
        "[[": parse_conditional,
    }
)
"""By the word that begins one: parses up to and including its last word; the first was taken."""
