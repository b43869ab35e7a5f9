"""Regular expressions in linear time, in the language that ripgrep and RE2 have in common.

A pattern comes from a model or from hostile text, so an engine that backtracks is out: a few
characters would hold it for ever (CWE-1333). RE2 takes time that grows with the text only, and
memory that is capped. What the two engines read differently is rewritten for each, so that both
mean the same, or refused: escapes of punctuation, ``{`` that begins no repetition, ``[`` and set
operators in a class, ``\\w``, ``\\d`` and ``\\s`` beyond ASCII. One difference stays: without
ripgrep ``\\b`` and ``\\B`` take letters outside ASCII for no letters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import re2  # type: ignore[import-untyped]

from sandboxed_tools.errors import FieldError, InvalidInput

__all__ = ["SearchPattern", "compile_search"]

_MAX_PATTERN_CHARS: Final = 4096
_MEMORY_BYTES: Final = 8 * 1024 * 1024
_META: Final = frozenset("\\.+*?()|[]{}^$#&-~")
_REPETITION: Final = re.compile(r"\{\d+(?:,\d*)?\}")
_POSIX_CLASS: Final = re.compile(r"\[:\^?[a-z]+:\]")

_SPACE: Final = (
    r"\t\n\v\f\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
)
_ENDS: Final = {"A": "^", "z": "$"}
"""Each line is a text of its own."""
_CLASSES: Final = {"w": r"\pL\pM\p{Nd}\p{Nl}\p{Pc}", "d": r"\p{Nd}", "s": _SPACE}


@dataclass(frozen=True, slots=True)
class SearchPattern:
    """A pattern for both engines. ``for_ripgrep`` goes behind ``-e``."""

    for_ripgrep: str
    ignore_case: bool
    _compiled: Any

    def find(self, data: bytes, position: int) -> tuple[int, int] | None:
        """The next match in UTF-8 text at or behind ``position``; never across a line feed."""
        match = self._compiled.search(data, position)
        return None if match is None else match.span()


def compile_search(
    pattern: str, *, ignore_case: bool = False, literal: bool = False
) -> SearchPattern:
    """Compile a pattern, or with ``literal`` a text that stands for itself.

    Raises:
        InvalidInput: ``regex``: not a pattern for both engines, too long, too large; the message
            says what is wrong, and that look-around and back-references do not exist here.
    """
    if not pattern:
        raise _refused("the pattern is empty")
    if len(pattern) > _MAX_PATTERN_CHARS:
        raise _refused(f"the pattern is longer than {_MAX_PATTERN_CHARS} characters")
    if "\n" in pattern or "\0" in pattern:
        raise _refused("the pattern holds a line feed or NUL; lines are matched one by one")
    if literal:
        pattern = "".join(f"\\{c}" if c in _META else c for c in pattern)
    dialects = _Dialects(pattern)
    options = re2.Options()
    options.never_nl = True
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES
    options.case_sensitive = not ignore_case
    try:
        compiled = re2.compile("(?m)" + dialects.for_re2, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise _refused(_words(error)) from None
    return SearchPattern(dialects.for_ripgrep, ignore_case, compiled)


def _refused(why: str) -> InvalidInput:
    message = f"The regular expression cannot be used: {why}."
    return InvalidInput(message, fields=(FieldError("pattern", why, "regex"),))


def _words(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "it holds a lone surrogate"
    text = error.args[0] if error.args else ""
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    if "(?=" in text or "(?!" in text or "(?<" in text or "invalid perl operator" in text:
        return f"{text}; look-around is not available"
    if "invalid escape sequence: \\" in text and text[-1:].isdigit():
        return f"{text}; back-references are not available"
    return text


class _Dialects:
    """One reading of the pattern, written down for both engines."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._re2: list[str] = []
        self._ripgrep: list[str] = []
        while self._at < len(pattern):
            self._step()

    @property
    def for_re2(self) -> str:
        return "".join(self._re2)

    @property
    def for_ripgrep(self) -> str:
        return "".join(self._ripgrep)

    def _emit(self, text: str, *, ripgrep: str | None = None) -> None:
        self._re2.append(text)
        self._ripgrep.append(text if ripgrep is None else ripgrep)

    def _step(self) -> None:
        character = self._pattern[self._at]
        if character == "\\":
            self._escape(in_class=False)
        elif character == "[":
            self._class()
        elif character == "{":
            repetition = _REPETITION.match(self._pattern, self._at)
            text = repetition[0] if repetition else "\\{"
            self._at += len(repetition[0]) if repetition else 1
            self._emit(text)
        elif character == "}":
            self._at += 1
            self._emit("\\}")
        else:
            self._at += 1
            self._emit(character)

    def _escape(self, *, in_class: bool) -> None:
        letter = self._pattern[self._at + 1 : self._at + 2]
        if not letter:
            raise _refused("it ends with a backslash")
        self._at += 2
        if letter in "pPx" and self._pattern[self._at : self._at + 1] == "{":
            end = self._pattern.find("}", self._at) + 1 or len(self._pattern)
            letter += self._pattern[self._at : end]
            self._at = end
        if letter in "QEC":
            raise _refused(f"\\{letter} is not available")
        if letter == "n" and not in_class:
            raise _refused("it holds a line feed; lines are matched one by one")
        if letter in _ENDS and not in_class:
            self._emit(_ENDS[letter])
        elif letter in _CLASSES:
            members = _CLASSES[letter]
            self._emit(members if in_class else f"[{members}]", ripgrep=f"\\{letter}")
        elif letter in ("W", "D", "S"):
            if in_class and letter != "D":
                raise _refused(f"\\{letter} in a class is not available; negate the class")
            members = _CLASSES[letter.lower()]
            text = r"\P{Nd}" if in_class else f"[^{members}]"
            self._emit(text, ripgrep=f"\\{letter}")
        elif len(letter) == 1 and letter.isascii() and not letter.isalnum():
            self._emit(f"\\{letter}", ripgrep=f"\\{letter}" if letter in _META else letter)
        else:
            self._emit(f"\\{letter}")

    def _class(self) -> None:
        start = self._at
        self._at += 1
        self._emit("[")
        if self._pattern[self._at : self._at + 1] == "^":
            self._at += 1
            self._emit("^")
        if self._pattern[self._at : self._at + 1] == "]":
            self._at += 1
            self._emit("\\]")
        while self._at < len(self._pattern):
            character = self._pattern[self._at]
            posix = _POSIX_CLASS.match(self._pattern, self._at)
            if character == "]":
                self._at += 1
                self._emit("]")
                return
            if posix is not None:
                self._at += len(posix[0])
                self._emit(posix[0])
            elif character == "\\":
                self._escape(in_class=True)
            else:
                self._at += 1
                # "[" would nest, "&&" and "~~" would combine sets in ripgrep.
                self._emit(f"\\{character}" if character in "[&~" else character)
        raise _refused(f"the class at character {start + 1} is not closed")
