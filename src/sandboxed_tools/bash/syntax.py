"""What a parsed command is made of: arguments, redirections, assignments, simple commands.

An argument is either known to the letter, or known only by the text that it begins with. The
distinction carries the whole verdict: ``"$x"`` may turn out to be ``-delete``, ``src/"$x"`` cannot.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Argument", "Assignment", "Redirect", "Refused", "Script", "SimpleCommand"]


class Refused(Exception):
    """Internal: this text is not provably read-only. Never leaves the package.

    ``start`` and ``end`` are offsets in characters into the command.
    """

    def __init__(self, code: str, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.start = start
        self.end = end


@dataclass(frozen=True, slots=True)
class Argument:
    """One word of a command after all quoting is undone.

    ``literal`` is the exact text, or ``None``. ``head`` is the text that it is known to begin with
    (the whole of it, when literal). ``shape`` is the text with ``*`` in place of every part that is
    not known. ``splits``: it may become any number of words, none included, of which only the first
    begins with ``head``. ``many``: it is a pattern that becomes one word or more, each beginning
    with ``head``. ``plain_start``: although ``head`` is empty, no word begins with ``-``, ``+``,
    ``@`` or the like (a number, a path made by ``find``, a variable whose every value is known,
    which splits only in that an empty one is no word at all).
    ``number``: it is digits only. ``relative``: it begins with a pattern character, so it never
    begins with ``/``. ``tilde``: it begins with an unquoted ``~``. ``bare``: it was written without
    any quoting, so it can be a reserved word.
    """

    literal: str | None
    head: str
    shape: str
    start: int
    end: int
    splits: bool = False
    many: bool = False
    plain_start: bool = False
    number: bool = False
    relative: bool = False
    tilde: bool = False
    bare: bool = False

    @property
    def is_one_word(self) -> bool:
        return not (self.splits or self.many)

    def may_begin_with(self, characters: str) -> bool:
        """Whether any word that this becomes may begin with one of ``characters``."""
        if self.literal is not None:
            return self.literal[:1] in characters if self.literal else False
        if self.splits:
            return not self.plain_start
        if self.head:
            return self.head[0] in characters
        return not self.plain_start


@dataclass(frozen=True, slots=True)
class Redirect:
    """``fd operator target``; a here-document has its delimiter as the target."""

    operator: str
    fd: int | None
    target: Argument
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """``name=value``; ``value`` is ``None`` where it is not known to the letter."""

    name: str
    value: str | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A program or builtin with its arguments, as bash would start it."""

    words: tuple[Argument, ...]
    redirects: tuple[Redirect, ...]
    assignments: tuple[Assignment, ...]
    start: int
    end: int

    @property
    def argv(self) -> tuple[str | None, ...]:
        """The words where they are known to the letter, ``None`` where they are not."""
        return tuple(word.literal for word in self.words)


@dataclass(slots=True)
class Script:
    """Everything that a command text would run, flat: order and conditions do not matter here.

    ``redirects`` belong to compound commands; ``names`` are variables that ``for`` sets. ``starts``
    says of each value given to a variable whether it begins like a plain file name; ``unknown`` are
    variables of which a value is not known to the letter. ``values`` are the words that variables
    are given, ``tested`` the files that ``[[ … ]]`` asks about.
    """

    commands: list[SimpleCommand] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    names: list[Assignment] = field(default_factory=list)
    starts: list[tuple[str, bool]] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    values: list[Argument] = field(default_factory=list)
    tested: list[Argument] = field(default_factory=list)
