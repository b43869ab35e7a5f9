"""Words, quotes and expansions: one position in one text, moving forward only.

Each character is looked at once, apart from the inside of backquotes, which cannot be nested. The
scanner decides nothing about programs: it undoes quoting exactly as bash does, or refuses.
"""

from __future__ import annotations

import re

from sandboxed_tools.bash.expansions import (
    ANSI_C_ESCAPES,
    match_arithmetic,
    match_here_document,
    match_parameter,
)
from sandboxed_tools.bash.syntax import Argument, Redirect, Refused
from sandboxed_tools.bash.words import Piece

__all__ = ["MAX_DEPTH", "Scanner"]

MAX_DEPTH = 20
"""Deepest nesting of substitutions and compound commands."""

_BLANKS = re.compile(r"[ \t]*")
_UNQUOTED = re.compile(r"""[^ \t\n;|&<>()'"\\$`]+""")
_IN_DOUBLE_QUOTES = re.compile(r'[^"\\$`]+')
_SIMPLE_DELIMITER = re.compile(r"""(?P<quote>['"]?)(?P<name>[A-Za-z0-9_.!%+-]+)(?P=quote)""")
_UNUSUAL_IN_BACKQUOTES = re.compile(r"\\[$`\\\n]|\\$|<<")
_AFTER_DELIMITER = frozenset(" \t\n;|&<>)")
_WORD_END = frozenset(" \t\n;|&<>()")


class Scanner:
    """Characters to pieces. :class:`~sandboxed_tools.bash.parser.Parser` adds the grammar."""

    def __init__(self, text: str, start: int, end: int, depth: int) -> None:
        self.text = text
        self.position = start
        self.end = end
        self.depth = depth
        self.substitutions = 0
        self.pending: list[tuple[str, bool, bool]] = []
        self.plain_variables: frozenset[str] = frozenset()
        self.known_variables: frozenset[str] = frozenset()

    def refuse(self, code: str, message: str, start: int | None = None) -> Refused:
        at = self.position if start is None else start
        return Refused(code, message, at, max(at, min(self.position + 1, self.end)))

    def character(self, offset: int = 0) -> str:
        """The character ahead, or an empty text at the end."""
        at = self.position + offset
        return self.text[at] if at < self.end else ""

    def substitution(self, opening: int) -> None:
        """Parse the commands of a substitution up to its parenthesis; the grammar overrides it."""
        raise NotImplementedError

    def backquoted(self, start: int, end: int) -> None:
        """Parse the commands between two backquotes; the grammar overrides it."""
        raise NotImplementedError

    def skip_blanks(self) -> None:
        """Skip blanks, continued lines and a comment."""
        while True:
            match = _BLANKS.match(self.text, self.position, self.end)
            self.position = match.end() if match else self.position
            if not (self.character() == "\\" and self.character(1) == "\n"):
                break
            if self.pending:
                raise self.refuse("construct", "a continued line before a here-document's text")
            self.position += 2
            if self.character() == "#":
                raise self.refuse("construct", "a comment sign right after a continued line")
        if self.character() == "#":
            newline = self.text.find("\n", self.position, self.end)
            self.position = self.end if newline < 0 else newline

    def newline(self) -> None:
        """Take one newline, and with it the here-documents that wait for it."""
        self.position += 1
        waiting, self.pending = self.pending, []
        for delimiter, expands, strips_tabs in waiting:
            self._here_document(delimiter, expands=expands, strips_tabs=strips_tabs)

    def _here_document(self, delimiter: str, *, expands: bool, strips_tabs: bool) -> None:
        start = self.position
        while self.position < self.end:
            line_start = self.position
            newline = self.text.find("\n", line_start, self.end)
            line_end = self.end if newline < 0 else newline
            line = self.text[line_start:line_end]
            self.position = min(line_end + 1, self.end)
            stripped = line.lstrip("\t") if strips_tabs else line
            if self.substitutions and stripped.startswith(delimiter) and stripped != delimiter:
                # Where the line holds a parenthesis as well, bash ends the text right after the
                # delimiter, and runs the rest of the line (make_cmd.c, make_here_document).
                self.position = line_start
                raise self.refuse("construct", "a here-document's text that may end before its end")
            if stripped == delimiter:
                odd = match_here_document(self.text, start, line_start) if expands else None
                if odd is not None:
                    self.position = odd
                    raise self.refuse("expansion", "this expansion inside a here-document")
                return
        raise self.refuse("syntax", f"the here-document {delimiter!r} has no end", start)

    def here_document_delimiter(self, operator: str, fd: int | None, start: int) -> Redirect:
        match = _SIMPLE_DELIMITER.match(self.text, self.position, self.end)
        if match is None:
            raise self.refuse("construct", "a here-document with an unusual delimiter")
        begin, self.position = self.position, match.end()
        if self.character() and self.character() not in _AFTER_DELIMITER:
            raise self.refuse("construct", "a here-document with a partly quoted delimiter")
        name = match["name"]
        self.pending.append((name, not match["quote"], operator == "<<-"))
        target = Argument(name, name, name, begin, match.end())
        return Redirect(operator, fd, target, start, match.end())

    def word(self) -> list[Piece]:
        """The pieces of the word at this position; empty where there is none."""
        pieces: list[Piece] = []
        while self.position < self.end:
            match = _UNQUOTED.match(self.text, self.position, self.end)
            if match is not None:
                pieces.append(("u", match[0]))
                self.position = match.end()
                continue
            character = self.text[self.position]
            if character == "'":
                pieces.append(("q", self._single_quotes()))
            elif character == '"':
                self._double_quotes(pieces)
            elif character == "\\":
                following = self.character(1)
                if not following or following == "\n":
                    raise self.refuse("construct", "a word that is continued on the next line")
                pieces.append(("q", following))
                self.position += 2
            elif character == "$":
                self._dollar(pieces, quoted=False)
            elif character == "`":
                self._backquotes(quoted=False)
                pieces.append(("s", ""))
            elif character in "<>" and not pieces and self.character(1) == "(":
                if character == ">":
                    raise self.refuse("construct", "an output process substitution")
                self._process_substitution()
                return [("f", "")]
            else:
                break
        if pieces and self.character() in ("<", ">") and self.character(1) == "(":
            raise self.refuse("construct", "a process substitution inside a word")
        return pieces

    def _single_quotes(self) -> str:
        start = self.position
        close = self.text.find("'", start + 1, self.end)
        if close < 0:
            raise self.refuse("syntax", "a quote without its end", start)
        inside = self.text[start + 1 : close]
        self._no_newline_before_here_document(inside)
        self.position = close + 1
        return inside

    def _no_newline_before_here_document(self, text: str) -> None:
        if self.pending and "\n" in text:
            raise self.refuse("construct", "a quoted newline before a here-document's text")

    def _double_quotes(self, pieces: list[Piece]) -> None:
        start = self.position
        self.position += 1
        pieces.append(("q", ""))
        while self.position < self.end:
            match = _IN_DOUBLE_QUOTES.match(self.text, self.position, self.end)
            if match is not None:
                self._no_newline_before_here_document(match[0])
                pieces.append(("q", match[0]))
                self.position = match.end()
                continue
            character = self.text[self.position]
            if character == '"':
                self.position += 1
                return
            if character == "\\":
                following = self.character(1)
                if following == "\n":
                    raise self.refuse("construct", "a continued line inside quotes")
                pieces.append(("q", following if following in '$`"\\' else "\\" + following))
                self.position += 2
            elif character == "$":
                self._dollar(pieces, quoted=True)
            else:
                self._backquotes(quoted=True)
                pieces.append(("x", ""))
        raise self.refuse("syntax", "a quote without its end", start)

    def _dollar(self, pieces: list[Piece], *, quoted: bool) -> None:
        start = self.position
        following = self.character(1)
        if following == "(":
            if self.character(2) == "(":
                end = match_arithmetic(self.text, start, self.end)
                if end is None:
                    raise self.refuse("expansion", "arithmetic that is not on literal numbers")
                self.position = end
                pieces.append(("x", ""))
                return
            self._no_pending()
            self.position += 2
            self.substitution(start)
            pieces.append(("x" if quoted else "s", ""))
        elif following == "'" and not quoted:
            pieces.append(("q", self._ansi_c()))
        elif following == "[" or (following == '"' and not quoted):
            raise self.refuse("expansion", f"the expansion ${following}…")
        elif (found := match_parameter(self.text, start, self.end)) is not None:
            self.position, kind = found
            name = self.text[start + 1 : self.position].strip("{}")
            if kind == "number":
                pieces.append(("n", ""))
            elif quoted and name in self.plain_variables:
                pieces.append(("k", ""))
            elif not quoted and name in self.known_variables:
                pieces.append(("w", ""))
            else:
                pieces.append(("x" if quoted and kind == "text" else "s", ""))
        elif following == "{":
            raise self.refuse(
                "expansion", "an expansion that may assign, evaluate or run something"
            )
        elif following == "\\" and self.character(2) == "\n":
            raise self.refuse("construct", "an expansion that is continued on the next line")
        else:
            pieces.append(("q", "$"))
            self.position += 1

    def _ansi_c(self) -> str:
        start = self.position
        self.position += 2
        result: list[str] = []
        while (character := self.character()) != "'":
            if not character:
                raise self.refuse("syntax", "a quote without its end", start)
            self._no_newline_before_here_document(character)
            if character == "\\":
                plain = ANSI_C_ESCAPES.get(self.character(1))
                if plain is None:
                    raise self.refuse("expansion", "an unusual escape inside $'…'")
                result.append(plain)
                self.position += 2
            else:
                result.append(character)
                self.position += 1
        self.position += 1
        return "".join(result)

    def _no_pending(self) -> None:
        if self.pending:
            raise self.refuse("construct", "a substitution before a here-document's text")

    def _backquotes(self, *, quoted: bool) -> None:
        start = self.position
        self._no_pending()
        close = self.text.find("`", start + 1, self.end)
        if close < 0:
            raise self.refuse("syntax", "a backquote without its end", start)
        inside = self.text[start + 1 : close]
        if _UNUSUAL_IN_BACKQUOTES.search(inside) or (quoted and re.search(r'["\\]', inside)):
            raise self.refuse("construct", "backquotes that hold a backslash or quotes")
        self.backquoted(start + 1, close)
        self.position = close + 1

    def _process_substitution(self) -> None:
        start = self.position
        self._no_pending()
        self.position += 2
        self.substitution(start)
        ahead = self.character()
        if ahead and (ahead not in _WORD_END or self.character(1) == "("):
            raise self.refuse("construct", "a process substitution inside a word")
