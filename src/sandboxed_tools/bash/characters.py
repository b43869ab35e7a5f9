"""The characters a command may hold at all: checked before anything is parsed."""

from __future__ import annotations

import re
import unicodedata

from sandboxed_tools.bash.syntax import Refused

__all__ = ["MAX_COMMAND_CHARACTERS", "refuse_characters"]

MAX_COMMAND_CHARACTERS = 10_000
"""Longer commands are never read-only: a limit on the work, and it fails closed."""

_ORDINARY = re.compile(r"[\t\n -~]*")
_ODD = re.compile(r"[^\t\n -~]")
_REFUSED_CATEGORIES = frozenset({"Zs", "Zl", "Zp", "Cf", "Cc", "Co", "Cn", "Cs"})


def refuse_characters(text: str) -> None:
    """Refuse text that bash, a terminal and a person may read in different ways.

    Refused are control characters but tab and newline (bash takes CR, VT and FF for parts of a
    word, and cannot hold NUL), every kind of blank, format or unassigned character above ASCII,
    and lone surrogates.

    Raises:
        Refused: with code ``too_long`` or ``character``.
    """
    if len(text) > MAX_COMMAND_CHARACTERS:
        raise Refused(
            "too_long",
            f"the command has {len(text)} characters; at most {MAX_COMMAND_CHARACTERS} are judged",
            0,
            len(text),
        )
    if _ORDINARY.fullmatch(text):
        return
    for match in _ODD.finditer(text):
        character = match[0]
        if character < "\x80" or unicodedata.category(character) in _REFUSED_CATEGORIES:
            raise Refused(
                "character",
                f"the character U+{ord(character):04X} is read differently by different programs",
                match.start(),
                match.end(),
            )
