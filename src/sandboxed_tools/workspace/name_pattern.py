"""One name against one component of a glob, in time that grows with the name and never explodes.

Understood: ``*``, ``?``, ``[a-z]``, ``[!a-z]``, ``[^a-z]``, ``[[:alpha:]]``, and ``\\`` before a
character that is meant itself, in brackets, too. The classes are those of POSIX and ``word``, each
of ASCII only, as git has them.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator
from typing import Final

__all__ = ["NameMatcher", "has_open_bracket", "name_matcher"]

NameMatcher = Callable[[str], object]

_CLASSES: Final = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": re.escape(string.punctuation),
    "space": r" \t\r\n\v\f",
    "upper": "A-Z",
    "word": "a-zA-Z0-9_",
    "xdigit": "0-9a-fA-F",
}
_CLASS: Final = re.compile(r"\[:([a-z]+):\]")
_SPECIAL: Final = re.compile(r"[*?\[\]\\]")
_PLAIN_SUFFIX: Final = re.compile(r"\*([^*?\[\]\\]+)")


def name_matcher(pattern: str, *, ignore_case: bool = False) -> NameMatcher:
    """The fastest function that tells whether a name matches; its answer is true or false."""
    if not ignore_case:
        if pattern == "*":
            return bool
        if _SPECIAL.search(pattern) is None:
            return pattern.__eq__
        suffix = _PLAIN_SUFFIX.fullmatch(pattern)
        if suffix is not None:
            ending = suffix[1]
            return lambda name: name.endswith(ending)
    flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
    return re.compile(_regex(pattern), flags).fullmatch


def has_open_bracket(pattern: str) -> bool:
    """Whether a ``[`` is never closed: here it means itself, in gitignore(5) it matches nothing."""
    index = 0
    while index < len(pattern):
        if pattern[index] == "[":
            end = _class_end(pattern, index)
            if end is None:
                return True
            index = end
        index += 2 if pattern[index] == "\\" else 1
    return False


def _regex(pattern: str) -> str:
    between = [""]
    for token in _tokens(pattern):
        if token != "*":
            between[-1] += token
        elif len(between) == 1 or between[-1]:
            between.append("")
    first, *others = between
    if not others:
        return first
    # What stands between two stars may as well be taken where it first occurs. The group gives
    # nothing back, so that not every star is tried at every place.
    middle = "".join(f"(?>.*?{text})" for text in others[:-1])
    return f"{first}{middle}.*{others[-1]}"


def _tokens(pattern: str) -> Iterator[str]:
    """Regular expressions of one character each, and ``*`` for a star."""
    index = 0
    while index < len(pattern):
        character = pattern[index]
        end = _class_end(pattern, index) if character == "[" else None
        if end is not None:
            yield _class(pattern[index + 1 : end])
            index = end
        elif character in "*?":
            yield "*" if character == "*" else "."
        else:
            index += character == "\\" and index + 1 < len(pattern)
            yield re.escape(pattern[index])
        index += 1


def _class_end(pattern: str, start: int) -> int | None:
    """Where the bracket that opens at ``start`` is closed; a first ``]`` in it is a member."""
    if pattern.find("]", start) < 0:
        return None
    index = start + 1
    if pattern[index : index + 1] in ("!", "^"):
        index += 1
    if pattern[index : index + 1] == "]":
        index += 1
    while index < len(pattern):
        named = _CLASS.match(pattern, index)
        if named is not None:
            index = named.end()
        elif pattern[index] == "]":
            return index
        else:
            index += 2 if pattern[index] == "\\" else 1
    return None


def _class(body: str) -> str:
    is_negated = body.startswith(("!", "^"))
    members = "".join(_members(body[is_negated:]))
    if not members:
        return "." if is_negated else "(?!)"
    return f"[{'^' if is_negated else ''}{members}]"


def _members(body: str) -> Iterator[str]:
    """What stands in brackets, as it is written in a regular expression's."""
    index = 0
    while index < len(body):
        named = _CLASS.match(body, index)
        if named is not None:
            yield _CLASSES.get(named[1], "")
            index = named.end()
            continue
        first, index = _member(body, index)
        if body[index : index + 1] == "-" and index + 1 < len(body):
            last, index = _member(body, index + 1)
            if first <= last:
                yield f"{re.escape(first)}-{re.escape(last)}"
        else:
            yield re.escape(first)


def _member(body: str, index: int) -> tuple[str, int]:
    """One character, which may be escaped, and where the next one is."""
    index += body[index] == "\\" and index + 1 < len(body)
    return body[index], index + 1
