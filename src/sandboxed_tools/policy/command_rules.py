"""Rules for shell commands: ``git status:*`` against every part of a compound command.

The two directions are not symmetric. An *allow* rule matches only what is known to the letter. An
*ask* or *deny* rule also matches what may turn out to be it: unknown words, a program behind a
wrapper (``env``, ``xargs``), another path to the program, text handed to ``eval`` or ``bash -c``.
It stays a convenience: any interpreter runs what no rule can see, and the container is the
boundary.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import lru_cache

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.policy.command_parts import Part, base_name, split_command

__all__ = ["CommandPattern", "command_pattern", "suggested_pattern"]


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """A parsed pattern: words to begin with, or to equal when ``is_exact``."""

    words: tuple[str, ...]
    redirects: frozenset[tuple[str, str | None]]
    assignments: frozenset[tuple[str, str | None]]
    is_exact: bool

    @property
    def program(self) -> str | None:
        """The base name of the program, for an index; ``None`` for assignments alone."""
        return base_name(self.words[0]) if self.words else None

    def surely_matches(self, part: Part) -> bool:
        """Whether a part is this to the letter: for allow rules."""
        count = len(self.words)
        same = part.words == self.words if self.is_exact else part.words[:count] == self.words
        return (
            same
            and not part.has_unknown_program
            and part.redirects == self.redirects
            and part.assignments == self.assignments
            and (bool(part.words) or not self.words)
        )

    def may_match(self, part: Part) -> bool:
        """Whether a part is, or may turn out to be, this: for ask and deny rules."""
        for index, word in enumerate(self.words):
            if part.open_at is not None and index >= part.open_at:
                return self._may_have_the_rest_of(part)
            if index >= len(part.words):
                return False
            known = part.words[index]
            if known is None or known == word:
                continue
            if index == 0 and base_name(known) == base_name(word):
                continue
            return False
        if self.is_exact and part.open_at is None and len(part.words) != len(self.words):
            return False
        return self._may_have_the_rest_of(part)

    def _may_have_the_rest_of(self, part: Part) -> bool:
        return not (self.redirects or self.assignments) or (
            _contained(self.redirects, part.redirects)
            and _contained(self.assignments, part.assignments)
        )


def command_pattern(text: str) -> CommandPattern:
    """Read the pattern of a rule: one simple command, optionally with ``:*`` behind it.

    Raises:
        ConfigurationError: it is no single simple command whose words are known to the letter.
    """
    return _pattern(text)


@lru_cache(maxsize=4096)
def _pattern(text: str) -> CommandPattern:
    is_exact = not text.endswith(":*")
    command = text if is_exact else text[:-2]
    parts = split_command(command).parts
    if parts is None or len(parts) != 1:
        raise ConfigurationError(
            f"The pattern {text[:200]!r} is not one simple command; write a rule for each part."
        )
    (part,) = parts
    unknown = [value for _, value in (*part.redirects, *part.assignments) if value is None]
    words = tuple(word for word in part.words if word is not None)
    if unknown or len(words) != len(part.words):
        raise ConfigurationError(
            f"The pattern {text[:200]!r} holds a wildcard or an expansion; only ':*' at its end "
            "stands for anything."
        )
    return CommandPattern(words, part.redirects, part.assignments, is_exact)


def _contained(
    wanted: frozenset[tuple[str, str | None]], found: frozenset[tuple[str, str | None]]
) -> bool:
    return all(
        item in found or any(name == item[0] and value is None for name, value in found)
        for item in wanted
    )


def suggested_pattern(part: Part) -> str | None:
    """A pattern that matches exactly this part; ``None`` where no pattern can."""
    if part.has_unknown_program or None in part.words or not part.words:
        return None
    text = part.text
    try:
        pattern = command_pattern(text)
    except ConfigurationError:
        text = shlex.join(word for word in part.words if word is not None)
        try:
            pattern = command_pattern(text)
        except ConfigurationError:
            return None
    return text if pattern.is_exact and pattern.surely_matches(part) else None
