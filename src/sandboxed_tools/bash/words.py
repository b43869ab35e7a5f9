"""From the pieces of a word to arguments: braces, patterns, the tilde.

The scanner hands over a word as pieces ``(kind, text)``. Kinds: ``u`` unquoted text, ``q`` quoted
text, ``x`` one unknown text, ``n`` an unknown number, ``s`` unknown text that bash splits into
words, ``f`` the path of a process substitution, ``k`` a quoted variable that begins plainly, ``w``
an unquoted one whose every value is a plain word or empty.
"""

from __future__ import annotations

import re
from itertools import pairwise

from sandboxed_tools.bash.syntax import Argument, Refused

__all__ = [
    "MAX_WORDS",
    "Piece",
    "begins_plainly",
    "is_plain",
    "make_argument",
    "make_arguments",
    "make_value",
]

Piece = tuple[str, str]

MAX_WORDS = 500
"""Most words that the braces of one word may become."""

_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./-]*")
_PLAIN_START = re.compile(r"[A-Za-z0-9_./]")
_PATTERN = re.compile(r"[*?\[]")
_ASSIGNMENT_LIKE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_INTEGER_RANGE = re.compile(
    r"(0|-?[1-9][0-9]{0,5})\.\.(0|-?[1-9][0-9]{0,5})(?:\.\.([1-9][0-9]{0,3}))?"
)
_PADDED_RANGE = re.compile(r"([0-9]{1,6})\.\.([0-9]{1,6})")
_LETTER_RANGE = re.compile(r"([a-z])\.\.([a-z])|([A-Z])\.\.([A-Z])")


def is_plain(value: str) -> bool:
    """Whether a value is the path of a file with an ordinary name."""
    return _PLAIN_VALUE.fullmatch(value) is not None


def begins_plainly(argument: Argument) -> bool:
    """Whether all words of this argument begin like a file name, below a folder where unknown."""
    if argument.literal is not None:
        return is_plain(argument.literal)
    head = argument.head
    return not argument.splits and "/" in head and is_plain(head)


def make_arguments(pieces: list[Piece], start: int, end: int) -> list[Argument]:
    """Every word that the pieces become, after brace expansion.

    Raises:
        Refused: braces that could be read in more than one way, or that become too many words.
    """
    if any(kind == "u" and "{" in text for kind, text in pieces):
        return [make_argument(item, start, end) for item in _expand(pieces, start, end)]
    return [make_argument(pieces, start, end)]


def make_value(pieces: list[Piece]) -> str | None:
    """The text of an assignment's value, or ``None`` where it is not known to the letter."""
    if any(kind not in "uq" or (kind == "u" and "~" in text) for kind, text in pieces):
        return None
    return "".join(text for _, text in pieces)


def make_argument(pieces: list[Piece], start: int, end: int) -> Argument:
    """The one word that the pieces become without brace expansion."""
    if len(pieces) == 1 and pieces[0][0] == "u":
        text = pieces[0][1]
        if not _PATTERN.search(text) and "~" not in text:
            return Argument(text, text, text, start, end, bare=True)
    pieces = _mark_patterns_and_tildes(pieces)
    head: list[str] = []
    shape: list[str] = []
    known = True
    may_vanish = not any(text for kind, text in pieces if kind in "uq")
    splits = many = False
    first = next((kind for kind, text in pieces if text or kind not in "uq"), "q")
    for kind, text in pieces:
        if kind in "uq":
            shape.append(text)
            if known:
                head.append(text)
            continue
        if kind == "f" and known:
            head.append("/dev/fd/")
        known = False
        splits = splits or kind == "s" or (kind == "w" and may_vanish)
        many = many or kind == "p"
        shape.append("*")
    text = "".join(head)
    tilde = first == "t"
    return Argument(
        text if known else None,
        "~" if tilde else text,
        "~" + "".join(shape)[1:] if tilde else "".join(shape),
        start,
        end,
        splits=splits,
        many=many,
        plain_start=not any(kind == "s" for kind, _ in pieces)
        and (first == "n" or (first in "kw" and _follows_plainly(pieces))),
        number=len(pieces) == 1 and first == "n",
        relative=first == "p" and not splits,
        tilde=tilde,
        bare=known and all(kind == "u" for kind, _ in pieces),
    )


def _follows_plainly(pieces: list[Piece]) -> bool:
    """Whether the word begins plainly even where the variable at its start is empty."""
    texts = [(kind, text) for kind, text in pieces if text or kind not in "uq"]
    return len(texts) == 1 or (texts[1][0] in "uq" and bool(_PLAIN_START.match(texts[1][1])))


def _mark_patterns_and_tildes(pieces: list[Piece]) -> list[Piece]:
    """Split unquoted text at pattern characters (kind ``p``) and live tildes (``t``)."""
    result: list[Piece] = []
    assigns = pieces[0][0] == "u" and _ASSIGNMENT_LIKE.match(pieces[0][1])
    last_bracket = -1
    for index, (kind, text) in enumerate(pieces):
        if kind == "u" and "]" in text:
            last_bracket = index
    for index, (kind, text) in enumerate(pieces):
        if kind != "u":
            result.append((kind, text))
            continue
        rest = 0
        for position, character in enumerate(text):
            if character in "*?" or (
                character == "["
                and (last_bracket > index or (last_bracket == index and "]" in text[position:]))
            ):
                mark = "p"
            elif character == "~" and (
                (index == 0 and position == 0)
                or (assigns and position and text[position - 1] in "=:")
            ):
                mark = "t"
            else:
                continue
            if position > rest:
                result.append(("u", text[rest:position]))
            result.append((mark, character))
            rest = position + 1
        if rest < len(text):
            result.append(("u", text[rest:]))
    return result


def _expand(pieces: list[Piece], start: int, end: int) -> list[list[Piece]]:
    tokens: list[Piece] = []
    for kind, text in pieces:
        if kind == "u":
            tokens.extend(("u", character) for character in text)
        else:
            tokens.append((kind, text))
    words = _expand_tokens(tokens, start, end, 0)
    if not all(words):
        raise Refused("expansion", "braces that make an empty word", start, end)
    return [_join(word) for word in words]


def _join(tokens: list[Piece]) -> list[Piece]:
    result: list[Piece] = []
    run: list[str] = []
    for kind, text in tokens:
        if kind == "u":
            run.append(text)
            continue
        if run:
            result.append(("u", "".join(run)))
            run = []
        result.append((kind, text))
    if run or not result:
        result.append(("u" if run else "q", "".join(run)))
    return result


def _expand_tokens(tokens: list[Piece], start: int, end: int, depth: int) -> list[list[Piece]]:
    opening = next((i for i, token in enumerate(tokens) if token == ("u", "{")), None)
    if opening is None:
        return [tokens]
    bare = "".join(text if kind == "u" else " " for kind, text in tokens)
    if not re.search(r",|\.\.", bare):
        return [tokens]
    if depth > 8:
        raise Refused("expansion", "braces are nested too deeply", start, end)
    closing, commas = _group(tokens, opening)
    if closing is None:
        raise Refused("expansion", "braces that do not match can be read in two ways", start, end)
    before, after = tokens[:opening], tokens[closing + 1 :]
    inside = tokens[opening + 1 : closing]
    if commas:
        edges = [opening, *commas, closing]
        choices = [
            choice
            for left, right in pairwise(edges)
            for choice in _expand_tokens(tokens[left + 1 : right], start, end, depth + 1)
        ]
    else:
        numbers = _range(inside, start, end)
        if numbers is None and any(kind == "u" and text in "{},." for kind, text in after):
            # Bash looks on for the end of such a group, so what follows must not have braces.
            raise Refused("expansion", "braces that can be read in two ways", start, end)
        choices = numbers or [[("u", "{"), *inside, ("u", "}")]]
    tails = _expand_tokens(after, start, end, depth + 1) if after else [[]]
    if len(choices) * len(tails) > MAX_WORDS:
        raise Refused("expansion", f"braces that make over {MAX_WORDS} words", start, end)
    return [before + choice + tail for choice in choices for tail in tails]


def _group(tokens: list[Piece], opening: int) -> tuple[int | None, list[int]]:
    depth = 0
    commas: list[int] = []
    for index in range(opening, len(tokens)):
        token = tokens[index]
        if token == ("u", "{"):
            depth += 1
        elif token == ("u", "}"):
            depth -= 1
            if depth == 0:
                return index, commas
        elif token == ("u", ",") and depth == 1:
            commas.append(index)
    return None, commas


def _range(inside: list[Piece], start: int, end: int) -> list[list[Piece]] | None:
    text = "".join(text if kind == "u" else "\0" for kind, text in inside)
    if match := _LETTER_RANGE.fullmatch(text):
        first, last = (ord(item) for item in match.groups() if item)
        step = 1 if first <= last else -1
        return [[("u", chr(code))] for code in range(first, last + step, step)]
    width = 0
    match = _INTEGER_RANGE.fullmatch(text)
    if match is None and (match := _PADDED_RANGE.fullmatch(text)):
        width = max(len(match[1]), len(match[2]))
    if match is not None:
        low, high = int(match[1]), int(match[2])
        by = int(match[3]) if match.lastindex and match.lastindex >= 3 else 1
        if abs(high - low) // by >= MAX_WORDS:
            raise Refused("expansion", f"braces that make over {MAX_WORDS} words", start, end)
        numbers = range(low, high + 1, by) if low <= high else range(low, high - 1, -by)
        return [[("u", str(number).zfill(width))] for number in numbers]
    if "," in text or ".." in text or "{" in text:
        raise Refused("expansion", "braces that can be read in two ways", start, end)
    return None
