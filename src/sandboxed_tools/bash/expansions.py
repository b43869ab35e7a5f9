"""The expansions whose effect is only a value: parameters and sums of literal numbers.

Everything that assigns (``:=``), evaluates (``@P``, ``!name``, names inside arithmetic, where a
variable's value is code: ``x='a[$(cmd)]'; $((x))`` runs cmd) or hides a substitution in its operand
is left out, and what is left out is refused. See bash(1), Parameter Expansion and Arithmetic
Evaluation; CVE-2025-66032 for ``@P``.
"""

from __future__ import annotations

import re

__all__ = ["ANSI_C_ESCAPES", "match_arithmetic", "match_here_document", "match_parameter"]

_PARAMETER = re.compile(
    r"""\$(?:
      (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<special>[?\#$!@*0-9-])
    | \{(?:
        (?P<length>\#[A-Za-z_][A-Za-z0-9_]*(?:\[(?:[@*]|[0-9]{1,9})\])?)
      | (?P<braced>[A-Za-z_][A-Za-z0-9_]*|[0-9]{1,9}|[?$@*\#-])
        (?P<subscript>\[(?:[@*]|[0-9]{1,9})\])?
        (?: :[ ]?[0-9]{1,9}(?::[0-9]{1,9})?
          | :[ ]-[0-9]{1,9}
          | (?: :?[-+] | %%? | \#\#? | /[/\#%]? | \^\^? | ,,? ) [^$`"'\\{}()\n<>]*
        )?
      )\}
    )""",
    re.VERBOSE,
)
_ARITHMETIC = re.compile(r"\$\(\(([0-9 +*/%()<>=!&|^~?:-]*)\)\)")
_PLAIN_DOLLAR = re.compile(r"\$(?=[ \t\n.,;:)%/]|$)")
_NUMBERS = frozenset("?#$")

ANSI_C_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"', "r": "\r"}


def match_parameter(text: str, position: int, end: int) -> tuple[int, str] | None:
    """The end of a harmless ``$name`` or ``${name…}`` at ``position``, and what it becomes.

    That is ``number`` (one word of digits), ``list`` (any number of words even inside quotes) or
    ``text`` (any text). ``None``: not one of the harmless forms.
    """
    match = _PARAMETER.match(text, position, end)
    if match is None:
        return None
    special = match["special"]
    if match["length"] or (special and special in _NUMBERS):
        return match.end(), "number"
    braced = match["braced"]
    if special == "@" or braced == "@" or (match["subscript"] or "").startswith("[@"):
        return match.end(), "list"
    return match.end(), "text"


def match_arithmetic(text: str, position: int, end: int) -> int | None:
    """The end of ``$((…))`` of digits and operators only, or ``None``."""
    match = _ARITHMETIC.match(text, position, end)
    if match is None:
        return None
    depth = 0
    for character in match[1]:
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth < 0:
                return None
    return match.end() if depth == 0 else None


def match_here_document(text: str, start: int, end: int) -> int | None:
    """Offset of the first thing in an unquoted here-document that is not plain; else ``None``."""
    position = start
    while (position := text.find("$", position, end)) >= 0:
        found = match_parameter(text, position, end)
        if found is not None:
            position = found[0]
        elif _PLAIN_DOLLAR.match(text, position, end):
            position += 1
        else:
            return position
    for character in "`\\":
        found_at = text.find(character, start, end)
        if found_at >= 0:
            return found_at
    return None
