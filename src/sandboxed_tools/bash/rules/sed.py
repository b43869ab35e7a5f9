"""sed: the script is parsed, and only commands that edit the stream are known.

``e`` and the flag ``e`` of ``s`` run programs, ``w``, ``W`` and the flag ``w`` write files, ``r``
and ``R`` read them: none is accepted (CVE-2025-64755 was ``w`` without a blank). Scanning follows
GNU sed's compile.c: a delimiter ends a pattern even inside ``[ ]``, so where other seds would
differ the script is refused.
"""

from __future__ import annotations

import re

from sandboxed_tools.bash.options import Spec, names
from sandboxed_tools.bash.rules.call import Call, is_version
from sandboxed_tools.bash.syntax import Argument

__all__ = ["check_sed", "sed_script_problem"]

SED = Spec(
    short="nErsuz",
    short_value="el",
    long=names(
        "quiet silent regexp-extended separate unbuffered null-data zero-terminated debug sandbox"
    ),
    long_value=frozenset({"expression", "line-length"}),
    paths="none",
)
_PLAIN_COMMANDS = frozenset("=dDgGhHnNpPxzF")
_NUMBER_COMMANDS = frozenset("lqQ")
_NUMBER = re.compile(r"[0-9]+")
_FLAGS = re.compile(r"[gpiIMm0-9]*")
_LABEL = re.compile(r"[ \t]*([A-Za-z0-9_]*)[ \t]*(?=[;\n}]|$)")
_TEXT = re.compile(r"[^\\\n]*")
_SPACE = re.compile(r"[ \t]*")
_BETWEEN = re.compile(r"[ \t\n;]*")


class _Odd(Exception):
    """Internal: the script is not wholly understood."""


def check_sed(call: Call) -> None:
    """``sed``: every script is judged, unless ``--sandbox`` comes before it.

    GNU sed compiles what ``-e`` gives when it comes to it: ``w`` opens its file although
    ``--version`` follows, and a later ``--sandbox`` forbids nothing any more (sed.c, main).
    """
    if is_version(call):
        return
    found = call.spec(SED)
    scripts: list[tuple[Argument, str]] = []
    for value in found.values:
        if value.option in ("-e", "--expression"):
            call.literal(value.argument)
            scripts.append((value.argument, value.literal or ""))
    operands = list(found.operands)
    sandboxed = "--sandbox" in found.options and (
        not scripts or call.arguments[0].literal == "--sandbox"
    )
    if not scripts:
        if not operands:
            raise call.refuse("operand", "no script")
        first = operands.pop(0)
        scripts.append((first, first.literal if first.literal is not None else "\0"))
        if not sandboxed or not first.is_one_word:
            call.literal(first)
    for operand in operands:
        call.path(operand)
    if sandboxed:
        return
    if any(text.endswith("\\") for _, text in scripts[:-1]):
        raise call.refuse("script", "a script that goes on in the next option")
    problem = sed_script_problem("\n".join(text for _, text in scripts))
    if problem is not None:
        raise call.refuse("script", problem, scripts[0][0])


def sed_script_problem(script: str) -> str | None:
    """Why a script is not known to only edit the stream, or ``None`` when it is."""
    try:
        _Script(script).run()
    except _Odd as odd:
        return str(odd)
    return None


class _Script:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.open_blocks = 0

    def ahead(self) -> str:
        return self.text[self.position : self.position + 1]

    def skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.position)
        if match is None:
            raise _Odd("the script is not understood")
        self.position = match.end()
        return match[0]

    def run(self) -> None:
        if self.text.startswith("#"):
            raise _Odd("a comment in the script")
        while True:
            self.skip(_BETWEEN)
            if not self.ahead():
                break
            self._command()
        if self.open_blocks:
            raise _Odd("a block without its end")

    def _command(self) -> None:
        if self.ahead() == "}":
            self.position += 1
            self.open_blocks -= 1
            if self.open_blocks < 0:
                raise _Odd("a block without its beginning")
            self._end()
            return
        self._addresses()
        letter = self.ahead()
        self.position += 1
        if letter in _PLAIN_COMMANDS and letter:
            self._end()
        elif letter in _NUMBER_COMMANDS and letter:
            self.skip(_SPACE)
            match = _NUMBER.match(self.text, self.position)
            self.position = match.end() if match else self.position
            self._end()
        elif letter == "s":
            self._substitute()
        elif letter == "y":
            delimiter = self._delimiter()
            self._until(delimiter, pattern=False)
            self._until(delimiter, pattern=False)
            self._end()
        elif letter == "{":
            self.open_blocks += 1
            if self.open_blocks > 20:
                raise _Odd("blocks nested too deeply")
        elif letter in ("b", "t", "T", ":") and letter:
            label = self.skip(_LABEL)
            if letter == ":" and not label.strip():
                raise _Odd("a label without a name")
        elif letter in ("a", "i", "c") and letter:
            self._text()
        else:
            raise _Odd(f"the command {letter!r} of the script is not known to only edit the stream")

    def _end(self) -> None:
        self.skip(_SPACE)
        if self.ahead() not in ("", ";", "\n", "}"):
            raise _Odd("something follows a command of the script")

    def _text(self) -> None:
        self.skip(_SPACE)
        text = self.skip(_TEXT)
        if not text or self.ahead() == "\\":
            raise _Odd("inserted text with a backslash")

    def _addresses(self) -> None:
        if self._address():
            self.skip(_SPACE)
            if self.ahead() == ",":
                self.position += 1
                self.skip(_SPACE)
                if self.ahead() in ("+", "~") and self.ahead():
                    self.position += 1
                    self.skip(_NUMBER)
                elif not self._address():
                    raise _Odd("an address that is not understood")
            elif self.ahead() == "~":
                raise _Odd("an address that is not understood")
        self.skip(_SPACE)
        while self.ahead() == "!":
            self.position += 1
            self.skip(_SPACE)

    def _address(self) -> bool:
        character = self.ahead()
        if character == "$":
            self.position += 1
        elif character.isdigit() and character.isascii():
            self.skip(_NUMBER)
            if self.ahead() == "~":
                self.position += 1
                self.skip(_NUMBER)
        elif character in ("/", "\\") and character:
            self.position += 1
            delimiter = "/" if character == "/" else self._delimiter()
            self._until(delimiter, pattern=True)
            while self.ahead() in ("I", "M") and self.ahead():
                self.position += 1
        else:
            return False
        return True

    def _delimiter(self) -> str:
        delimiter = self.ahead()
        if (
            not delimiter
            or not delimiter.isascii()
            or delimiter.isalnum()
            or delimiter in "\\\n ;{}[]"
        ):
            raise _Odd("an unusual delimiter")
        self.position += 1
        return delimiter

    def _until(self, delimiter: str, *, pattern: bool) -> None:
        start = self.position
        while True:
            character = self.ahead()
            if not character or character == "\n":
                raise _Odd("a pattern without its end")
            self.position += 1
            if character == delimiter:
                break
            if character == "\\":
                if self.ahead() in ("", "\n"):
                    raise _Odd("a continued line in the script")
                self.position += 1
        if pattern and not _brackets_close(self.text[start : self.position - 1]):
            raise _Odd("a delimiter inside brackets, which seds read in different ways")

    def _substitute(self) -> None:
        delimiter = self._delimiter()
        self._until(delimiter, pattern=True)
        self._until(delimiter, pattern=False)
        self.skip(_FLAGS)
        self._end()


def _brackets_close(pattern: str) -> bool:
    """Whether every bracket expression of the pattern ends inside it."""
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == "\\":
            position += 2
            continue
        position += 1
        if character != "[":
            continue
        if pattern[position : position + 1] == "^":
            position += 1
        if pattern[position : position + 1] == "]":
            position += 1
        while True:
            inside = pattern[position : position + 1]
            if not inside:
                return False
            if inside == "]":
                position += 1
                break
            if inside == "[" and pattern[position + 1 : position + 2] in (":", ".", "="):
                close = pattern.find(pattern[position + 1] + "]", position + 2)
                if close < 0:
                    return False
                position = close + 2
                continue
            position += 1
    return True
