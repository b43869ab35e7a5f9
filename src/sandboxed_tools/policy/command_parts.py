"""A shell command taken apart: all that it runs, and what that runs in turn.

The parser of :mod:`sandboxed_tools.bash` does it, the same that finds the read-only verdict. What
stands behind a wrapper (``env``, ``xargs``) or in a text handed to ``eval`` or ``bash -c`` is found
as far as the words tell; any interpreter runs what nothing here can see.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from sandboxed_tools.bash.characters import MAX_COMMAND_CHARACTERS, refuse_characters
from sandboxed_tools.bash.parser import parse
from sandboxed_tools.bash.syntax import Redirect, Refused, Script, SimpleCommand
from sandboxed_tools.bash.variables import is_plain_variable

__all__ = ["SHELLS", "CommandParts", "Part", "base_name", "split_command"]

_WRAPPERS: Final = frozenset(
    {"builtin", "busybox", "bwrap", "caffeinate", "cgexec", "chronic", "chroot", "chrt"}
    | {"command", "cpulimit", "dbus-run-session", "doas", "dumb-init", "entr", "env"}
    | {"exec", "fakeroot", "faketime", "find", "firejail", "flock", "gdb", "gosu", "ionice"}
    | {"ltrace", "nice", "nohup", "nsenter", "numactl", "parallel", "pkexec", "prlimit"}
    | {"proxychains", "proxychains4", "runuser", "script", "setarch", "setpriv", "setsid"}
    | {"ssh", "stdbuf", "strace", "su", "su-exec", "sudo", "systemd-inhibit", "systemd-run"}
    | {"taskset", "time", "timeout", "tini", "torsocks", "unbuffer", "unshare", "valgrind"}
    | {"watch", "xargs", "xvfb-run"}
)
SHELLS: Final = frozenset(["ash", "bash", "dash", "ksh", "mksh", "rbash", "sh", "zsh"])
_NEXT_IS_A_VALUE: Final = frozenset(["-o", "-O", "+o", "+O", "--rcfile", "--init-file"])
_MAX_NESTING: Final = 4


@dataclass(frozen=True, slots=True)
class Part:
    """One simple command: words as far as they are known, files it redirects to, assignments.

    ``words`` holds ``None`` for a word that is not known to the letter; ``open_at`` is the index of
    the first one that may become several words. ``text`` is how it was written.
    """

    words: tuple[str | None, ...]
    redirects: frozenset[tuple[str, str | None]]
    assignments: frozenset[tuple[str, str | None]]
    text: str
    open_at: int | None = None

    @property
    def has_unknown_program(self) -> bool:
        return bool(self.words) and self.words[0] is None


@dataclass(frozen=True, slots=True)
class CommandParts:
    """A command text taken apart.

    ``parts`` are all that it runs, ``hidden`` what these run in turn as far as their words tell.
    ``is_opaque``: some of it cannot be parsed, or a program is not known, so that every ask and
    deny rule matches. ``parts`` is ``None`` where nothing of the text can be relied on.
    ``programs`` are the base names of all programs in it.
    """

    parts: tuple[Part, ...] | None
    hidden: tuple[Part, ...]
    is_opaque: bool
    programs: frozenset[str] = frozenset()


def split_command(text: str) -> CommandParts:
    """Take a command text apart. Never raises; what is not understood is opaque."""
    # Not into the cache: it would keep a thousand texts of any length alive.
    return _OPAQUE if len(text) > MAX_COMMAND_CHARACTERS else _split(text)


_OPAQUE: Final = CommandParts(None, (), is_opaque=True)


@lru_cache(maxsize=1024)
def _split(text: str) -> CommandParts:
    script = _parsed(text)
    if script is None:
        return _OPAQUE
    parts = [_part(command, text) for command in script.commands]
    around = frozenset(filter(None, map(_redirect, script.redirects)))
    # The variable of a loop is no assignment to speak of, unless it is one that bash acts on.
    names = frozenset(
        (item.name, item.value) for item in script.names if not is_plain_variable(item.name)
    )
    if around or names:
        parts.append(Part((), around, names, ""))
    hidden: list[Part] = []
    is_opaque = any(part.has_unknown_program for part in parts)
    for part in parts:
        is_opaque |= _unwrap(part, hidden, 0)
    programs = frozenset(
        base_name(part.words[0]) for part in (*parts, *hidden) if part.words and part.words[0]
    )
    return CommandParts(tuple(parts), tuple(hidden), is_opaque, programs)


def _parsed(text: str) -> Script | None:
    try:
        refuse_characters(text)
        script = parse(text)
    except (Refused, RecursionError):
        return None
    has_content = script.commands or script.redirects or script.names
    return script if has_content else None


def _part(command: SimpleCommand, text: str) -> Part:
    opened = next((i for i, word in enumerate(command.words) if not word.is_one_word), None)
    return Part(
        words=command.argv,
        redirects=frozenset(filter(None, map(_redirect, command.redirects))),
        assignments=frozenset((item.name, item.value) for item in command.assignments),
        text=text[command.start : command.end],
        open_at=opened,
    )


def _redirect(redirect: Redirect) -> tuple[str, str | None] | None:
    """The operator and the file; ``None`` where no file but ``/dev/null`` is opened."""
    target = redirect.target.literal
    if redirect.operator in ("<<", "<<-", "<<<") or target == "/dev/null":
        return None
    if (
        redirect.operator in ("<&", ">&")
        and target is not None
        and (
            target == "-"
            or (target.removesuffix("-").isascii() and target.removesuffix("-").isdigit())
        )
    ):
        return None
    fd = "" if redirect.fd is None else str(redirect.fd)
    return f"{fd}{redirect.operator}", target


def _unwrap(part: Part, hidden: list[Part], depth: int) -> bool:
    """Collect what a part runs in turn; true where that cannot be told."""
    program = base_name(part.words[0]) if part.words and part.words[0] else ""
    if depth >= _MAX_NESTING:
        return program in _WRAPPERS or program in SHELLS or program in ("eval", "trap")
    if program in _WRAPPERS:
        return _unwrap_wrapper(part, hidden, depth)
    if program == "eval":
        return _unwrap_text(part.words[1:], hidden, depth)
    if program == "trap":
        words = part.words[2:] if part.words[1:2] == ("--",) else part.words[1:]
        return _unwrap_text(words[:1], hidden, depth)
    if program in SHELLS:
        return _unwrap_shell(part, hidden, depth)
    return program in (".", "source") and _is_a_stream(part.words[1:2])


def _unwrap_shell(part: Part, hidden: list[Part], depth: int) -> bool:
    operand = _operand(part.words[1:])
    options = [word for word in part.words[1:] if word is None or word[:1] in ("-", "+")]
    if any(word is None or (word[:2] != "--" and "c" in word) for word in options):
        return _unwrap_text(operand or (None,), hidden, depth)
    if {"--help", "--version"} & set(options):
        return False
    # What it is told on its standard input can be anything.
    return not operand or "-s" in options or _is_a_stream(operand)


def _operand(words: tuple[str | None, ...]) -> tuple[str | None, ...]:
    """The first word that is no option of a shell: a script, or its text after ``-c``."""
    is_value = False
    for word in words:
        if not is_value and (word is None or word[:1] not in ("-", "+")):
            return (word,)
        is_value = word in _NEXT_IS_A_VALUE
    return ()


def _is_a_stream(words: tuple[str | None, ...]) -> bool:
    return any(word is not None and word.startswith(("/dev/", "/proc/")) for word in words)


def _unwrap_wrapper(part: Part, hidden: list[Part], depth: int) -> bool:
    is_opaque = any(word is None for word in part.words[1:2])
    only_looks = _only_looks(part.words)
    for index in range(1, min(len(part.words), 64)):
        opened = None if part.open_at is None else max(part.open_at - index, 0)
        inner = Part(
            part.words[index:], part.redirects, part.assignments, part.text, open_at=opened
        )
        first = inner.words[0]
        if first is None:
            continue
        if any(character in first for character in " \t\n;"):
            # `watch 'rm x'`, `env -S 'rm x'`, `flock f -c 'rm x'`: text that is split again.
            text = first.partition("=")[2] if first.startswith("--") else first.removeprefix("-S")
            _unwrap_text((text,), hidden, depth + 1)
            continue
        if first.startswith("-"):
            continue
        hidden.append(inner)
        program = base_name(first)
        if program in SHELLS or program == "eval":
            is_opaque |= _unwrap(inner, hidden, depth + 1) and not only_looks
    return is_opaque


def _only_looks(words: tuple[str | None, ...]) -> bool:
    """Whether a wrapper runs nothing: ``find . -name sh``, ``command -v sh``."""
    runs = ("-exec", "-execdir", "-ok", "-okdir", None)
    return (words[0] == "find" and not set(words) & set(runs)) or (
        words[0] == "command" and words[1:2] in (("-v",), ("-V",))
    )


def _unwrap_text(words: tuple[str | None, ...], hidden: list[Part], depth: int) -> bool:
    known = [word for word in words if word is not None]
    if len(known) != len(words):
        return True
    if not any(word.strip() for word in known):
        return False
    script = _parsed(" ".join(known))
    if script is None:
        return True
    is_opaque = False
    for command in script.commands:
        inner = _part(command, " ".join(known))
        hidden.append(inner)
        is_opaque |= inner.has_unknown_program | _unwrap(inner, hidden, depth + 1)
    return is_opaque


def base_name(word: str) -> str:
    """The name of a program without the folders before it."""
    return word.rsplit("/", 1)[-1]
