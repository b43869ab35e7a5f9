"""The subset of bash's grammar that is understood; everything else is refused.

Recursive descent over one text. Understood are lists, pipelines, ``!``, ``time``, subshells,
groups, ``if``, ``while``, ``until``, ``for … in``, ``case``, ``[[ ]]``, simple commands,
redirections, here-documents, ``$( )``, backquotes and ``<( )``. Not understood, so refused:
background jobs, functions, coprocesses, ``select``, arrays, arithmetic commands, ``>( )``. bash(1),
SHELL GRAMMAR.
"""

from __future__ import annotations

import re

from sandboxed_tools.bash.compounds import COMPOUNDS
from sandboxed_tools.bash.scanner import MAX_DEPTH, Scanner
from sandboxed_tools.bash.syntax import (
    Argument,
    Assignment,
    Redirect,
    Script,
    SimpleCommand,
)
from sandboxed_tools.bash.words import (
    Piece,
    is_plain,
    make_argument,
    make_arguments,
    make_value,
)

__all__ = ["Parser", "parse"]

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=|\[)")
_RESERVED = re.compile(
    r"(?:if|then|elif|else|fi|while|until|do|done|for|case|esac|select|function|coproc|time"
    r"|\{|\}|!|\[\[|in)(?=[ \t\n;|&<>()]|$)"
)
_FD = re.compile(r"([0-9]{1,4})(?=[<>])")
_FD_VARIABLE = re.compile(r"\{[A-Za-z_][A-Za-z0-9_]*\}[<>]")
_REDIRECT = re.compile(r"&>>|&>|<<<|<<-|<<|<>|<&|<|>>|>\||>&|>")
_TIME_OPTION = re.compile(r"-p(?=[ \t])")
_CLOSERS = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}", "in"})
MAX_COMMANDS = 500
"""Most simple commands in one text; it fails closed."""
MAX_ARGUMENTS = 1_000
"""Most arguments, redirections and assignments of one command; it fails closed."""


def parse(
    text: str,
    *,
    plain_variables: frozenset[str] = frozenset(),
    known_variables: frozenset[str] = frozenset(),
) -> Script:
    """All that ``text`` would run.

    ``plain_variables`` are known to hold nothing, or what begins like a plain file name;
    ``known_variables`` nothing, or one plain word without blanks and patterns.

    Raises:
        Refused: the text is not wholly inside the subset, or is not valid bash.
    """
    script = Script()
    parser = Parser(text, 0, len(text), 0, script)
    parser.plain_variables = plain_variables
    parser.known_variables = known_variables
    parser.parse_list(frozenset(), closing="")
    if parser.position < parser.end or parser.pending:
        raise parser.refuse("syntax", "something is left over that bash would not accept")
    return script


class Parser(Scanner):
    """One text, or the inside of one pair of backquotes."""

    def __init__(self, text: str, start: int, end: int, depth: int, script: Script) -> None:
        super().__init__(text, start, end, depth)
        self.script = script

    def substitution(self, opening: int) -> None:
        self._deeper()
        self.substitutions += 1
        self.parse_list(frozenset(), closing=")")
        self.close(opening)
        self.substitutions -= 1
        self.depth -= 1

    def backquoted(self, start: int, end: int) -> None:
        self._deeper()
        inner = Parser(self.text, start, end, self.depth, self.script)
        inner.plain_variables = self.plain_variables
        inner.known_variables = self.known_variables
        inner.parse_list(frozenset(), closing="")
        if inner.position < inner.end or inner.pending:
            raise inner.refuse("syntax", "something is left over that bash would not accept")
        self.depth -= 1

    def close(self, opening: int) -> None:
        if self.character() != ")" or self.pending:
            raise self.refuse("syntax", "a parenthesis without its partner", opening)
        self.position += 1

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.refuse("too_deep", f"nested more than {MAX_DEPTH} deep")

    def reserved(self) -> str:
        """The reserved word at this position, or an empty text."""
        match = _RESERVED.match(self.text, self.position, self.end)
        return match[0] if match else ""

    def skip_lines(self) -> None:
        self.skip_blanks()
        while self.character() == "\n":
            self.newline()
            self.skip_blanks()

    def parse_list(self, stop: frozenset[str], *, closing: str) -> None:
        """Commands up to a word in ``stop``, the character ``closing``, ``;;`` or the end."""
        found = False
        while True:
            self.skip_lines()
            if self._at_stop(stop, closing):
                break
            self._and_or()
            found = True
            self.skip_blanks()
            character = self.character()
            if character == ";" and self.character(1) != ";":
                self.position += 1
            elif character == "\n":
                self.newline()
            elif character and not self._at_stop(frozenset(), closing):
                raise self.refuse("syntax", "an operator that is not accepted here")
        if not found and (stop or closing == ")"):
            raise self.refuse("syntax", "a list without a command")

    def _at_stop(self, stop: frozenset[str], closing: str) -> bool:
        character = self.character()
        if not character:
            if stop or closing == ")":
                raise self.refuse("syntax", "the end of a compound command is missing")
            return True
        if character == closing:
            return True
        if character == ";" and self.character(1) == ";" and closing == ";;":
            return True
        return bool(stop) and self.reserved() in stop

    def _and_or(self) -> None:
        self._pipeline()
        while True:
            self.skip_blanks()
            if self.text.startswith(("&&", "||"), self.position, self.end):
                self.position += 2
                self.skip_lines()
                self._pipeline()
            else:
                return

    def _pipeline(self) -> None:
        while (word := self.reserved()) in ("!", "time"):
            self.position += len(word)
            self.skip_blanks()
            if word == "time" and _TIME_OPTION.match(self.text, self.position, self.end):
                self.position += 2
                self.skip_blanks()
        self._command()
        while True:
            self.skip_blanks()
            if self.character() != "|" or self.character(1) == "|":
                return
            self.position += 2 if self.character(1) == "&" else 1
            self.skip_lines()
            self._command()

    def _command(self) -> None:
        start = self.position
        word = self.reserved()
        if self.character() == "(":
            if self.character(1) == "(":
                raise self.refuse("construct", "an arithmetic command")
            self._deeper()
            self.position += 1
            self.parse_list(frozenset(), closing=")")
            self.close(start)
        elif word in COMPOUNDS:
            self._deeper()
            self.position += len(word)
            COMPOUNDS[word](self)
        elif word in ("select", "function", "coproc"):
            raise self.refuse("construct", f"the construct {word!r}")
        elif word in _CLOSERS:
            raise self.refuse("syntax", f"the word {word!r} is not accepted here")
        else:
            self._simple_command()
            return
        self.depth -= 1
        while (redirect := self.redirect()) is not None:
            self.script.redirects.append(redirect)

    def expect(self, word: str) -> None:
        if self.reserved() != word:
            raise self.refuse("syntax", f"the word {word!r} was expected here")
        self.position += len(word)

    def redirect(self) -> Redirect | None:
        """The redirection at this position, if there is one."""
        self.skip_blanks()
        start = self.position
        fd: int | None = None
        match = _FD.match(self.text, start, self.end)
        if match is not None:
            fd = int(match[1])
            self.position = match.end()
        if _FD_VARIABLE.match(self.text, start, self.end):
            raise self.refuse("redirect", "a redirection that sets a variable")
        operator_match = _REDIRECT.match(self.text, self.position, self.end)
        if operator_match is None or self.text.startswith(("<(", ">("), self.position, self.end):
            if fd is not None:
                raise self.refuse("redirect", "a number before a process substitution", start)
            return None
        operator = operator_match[0]
        self.position = operator_match.end()
        self.skip_blanks()
        if operator in ("<<", "<<-"):
            return self.here_document_delimiter(operator, fd, start)
        begin = self.position
        pieces = self.word()
        number = pieces and self.text[begin : self.position].isdigit()
        if not pieces or (number and self.character() in ("<", ">")):
            raise self.refuse("syntax", "a redirection without a target", start)
        if operator == "<<<":
            target = Argument(None, "", "*", begin, self.position)
            return Redirect(operator, fd, target, start, self.position)
        targets = make_arguments(pieces, begin, self.position)
        if len(targets) != 1:
            raise self.refuse("redirect", "a redirection with several targets", start)
        return Redirect(operator, fd, targets[0], start, self.position)

    def word_arguments(self) -> list[Argument] | None:
        """The arguments that the word at this position becomes; ``None`` where there is no word."""
        begin = self.position
        pieces = self.word()
        if not pieces:
            return None
        return make_arguments(pieces, begin, self.position)

    def _simple_command(self) -> None:
        start = end = self.position
        words: list[Argument] = []
        redirects: list[Redirect] = []
        assignments: list[Assignment] = []
        while True:
            self.skip_blanks()
            redirect = self.redirect()
            if redirect is not None:
                redirects.append(redirect)
            elif not words and (assignment := self._assignment()) is not None:
                assignments.append(assignment)
            elif (arguments := self.word_arguments()) is not None:
                words.extend(arguments)
            else:
                break
            if len(words) + len(redirects) + len(assignments) > MAX_ARGUMENTS:
                raise self.refuse("too_long", f"more than {MAX_ARGUMENTS} arguments", start)
            end = self.position
        if self.character() == "(":
            raise self.refuse("construct", "a function, an array or an unquoted parenthesis", start)
        if not (words or redirects or assignments):
            raise self.refuse("syntax", "a command was expected here")
        self.script.commands.append(
            SimpleCommand(tuple(words), tuple(redirects), tuple(assignments), start, end)
        )
        if len(self.script.commands) > MAX_COMMANDS:
            raise self.refuse("too_long", f"more than {MAX_COMMANDS} commands", start)

    def _assignment(self) -> Assignment | None:
        match = _ASSIGNMENT.match(self.text, self.position, self.end)
        if match is None:
            return None
        start = self.position
        if match[2] != "=":
            raise self.refuse(
                "assignment", "an assignment that appends, or sets a part of an array"
            )
        self.position = match.end()
        pieces: list[Piece] = self.word()
        if self.character() == "(":
            raise self.refuse("construct", "an array")
        value = make_value(pieces) if pieces else ""
        plain = value is not None and (value == "" or is_plain(value))
        self.script.starts.append((match[1], plain))
        if pieces and match[1] != "IFS":
            self.script.values.append(make_argument(pieces, match.end(), self.position))
        return Assignment(match[1], value, start, self.position)
