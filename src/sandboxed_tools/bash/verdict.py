"""The verdict on a command: may it run on the host, because it provably only reads?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sandboxed_tools.bash.characters import refuse_characters
from sandboxed_tools.bash.options import Spec
from sandboxed_tools.bash.parser import parse
from sandboxed_tools.bash.paths import PathUse, is_folder_below, path_use
from sandboxed_tools.bash.rules.call import Call, Context
from sandboxed_tools.bash.syntax import (
    Argument,
    Assignment,
    Redirect,
    Refused,
    Script,
    SimpleCommand,
)
from sandboxed_tools.bash.table import NEVER, TABLE
from sandboxed_tools.bash.variables import is_harmless_environment, is_plain_variable
from sandboxed_tools.tool.reason import Reason

__all__ = ["PartVerdict", "Verdict", "classify", "split_commands"]

_PROGRAM_NAME = re.compile(r"[A-Za-z0-9_.+:\[-]+")
_SYSTEM_FOLDERS = ("/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/")
_DESCRIPTOR = re.compile(r"[0-9]|-")
_READ_TARGET_REFUSED = re.compile(r"/?(?:dev|proc)(?:/|$)")
_WRITES = frozenset({">", ">>", "&>", "&>>", ">|", ">&"})
_GIVEN_IN_EXPANSION = re.compile(r"\$\{[A-Za-z0-9_?$@*#\[\]-]*?(?::?[-+]|/[/#%]?[^}/]*/)([^}]*)\}")
_LEAVES_THE_FOLDER = re.compile(r"[/~]|(?:.*/)?\.\.(?:/|$)")
MAX_REASONS = 20
CACHED_COMMANDS = 2048


@dataclass(frozen=True, slots=True)
class PartVerdict:
    """One simple command of the text: offsets of its first and last character but one, and why."""

    start: int
    end: int
    read_only: bool
    reason: Reason


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a command provably only reads, and why.

    ``reasons`` is never empty; on acceptance it holds one with the code ``read_only``. ``parts``
    holds every simple command in the order of the text, also inside substitutions; it is empty
    where the text was not understood. ``paths`` are the paths it may open as far as they are known.
    ``uses_git``: it starts git (other than for its version).
    """

    read_only: bool
    reasons: tuple[Reason, ...]
    parts: tuple[PartVerdict, ...] = ()
    paths: tuple[PathUse, ...] = ()
    uses_git: bool = False

    def __bool__(self) -> bool:
        return self.read_only


def classify(
    command: object,
    *,
    trusted_workspace: bool = False,
    extra_specs: Mapping[str, Spec] | None = None,
) -> Verdict:
    """Judge a command text: read-only only if every part of it is known to be.

    ``trusted_workspace`` lets git's reading subcommands count as read-only. ``extra_specs`` adds
    programs; a name that is in the table already keeps its built-in entry. The command is never
    run, nothing outside the text is looked at, and no input makes this raise: what is not text, not
    understood, too long, too deep or unknown is not read-only.
    """
    if not isinstance(command, str):
        kind = type(command).__name__
        return _no(Refused("not_text", f"a command is text, this is of type {kind}", 0, 0))
    text = str.__str__(command)
    if extra_specs:
        return _judge(text, trusted_workspace is True, dict(extra_specs))
    if len(text) > 10_000:
        return _judge(text, False, {})
    return _cached(text, trusted_workspace is True)


@lru_cache(maxsize=CACHED_COMMANDS)
def _cached(text: str, trusted_workspace: bool) -> Verdict:
    return _judge(text, trusted_workspace, {})


def split_commands(command: object) -> tuple[SimpleCommand, ...] | None:
    """The simple commands of a text, also those inside substitutions, in the order of their ends.

    ``None`` where the text is not wholly understood: then nothing may be concluded about it.
    """
    if not isinstance(command, str):
        return None
    try:
        return tuple(_parse(str.__str__(command)).commands)
    except Refused:
        return None


def _parse(text: str) -> Script:
    refuse_characters(text)
    return parse(text)


def _judge(text: str, trusted_workspace: bool, extra: Mapping[str, Spec]) -> Verdict:
    try:
        script = _parse(text)
    except Refused as refused:
        return _no(refused)
    verdict = _judge_script(text, script, Context(trusted_workspace, extra, judge_words))
    plain = frozenset() if verdict.read_only else _plain_variables(script)
    if not plain:
        return verdict
    script = parse(text, plain_variables=plain, known_variables=plain - script.unknown)
    return _judge_script(text, script, Context(trusted_workspace, extra, judge_words))


def _plain_variables(script: Script) -> frozenset[str]:
    """The variables of which every value in the text begins like a plain file name.

    Order and conditions do not matter: a variable is empty or holds one of the values it is given.
    A name that is an argument of anything may be set in another way (``read``), and ``read`` alone
    sets ``REPLY``.
    """
    good = {name for name, plain in script.starts if plain and is_plain_variable(name)}
    good -= {"REPLY", *(name for name, plain in script.starts if not plain)}
    if good:
        words = {word.literal for command in script.commands for word in command.words}
        good -= {word for word in words if word is not None}
    return frozenset(good)


def _judge_script(text: str, script: Script, context: Context) -> Verdict:
    if not script.commands:
        return _no(Refused("empty", "there is no command", 0, len(text)))
    reasons: list[Reason] = []
    parts: list[PartVerdict] = []
    for command in script.commands:
        context.depth = 0
        reason = Reason("read_only", "only reads", command.start, command.end)
        try:
            _judge_command(command, context)
        except Refused as refused:
            reason = _reason(refused)
            reasons.append(reason)
        parts.append(PartVerdict(command.start, command.end, reason.code == "read_only", reason))
    try:
        _judge_rest(text, script, context)
    except Refused as refused:
        reasons.append(_reason(refused))
    if not reasons:
        reasons = [Reason("read_only", "every part is known to only read", 0, len(text))]
    else:
        reasons = reasons[:MAX_REASONS]
    return Verdict(
        reasons[0].code == "read_only",
        tuple(reasons),
        tuple(sorted(parts, key=lambda part: (part.start, part.end))),
        tuple(context.paths),
        bool(context.git_calls),
    )


def _reason(refused: Refused) -> Reason:
    return Reason(refused.code, refused.message, refused.start, refused.end)


def _no(refused: Refused) -> Verdict:
    return Verdict(False, (_reason(refused),))


def _judge_command(command: SimpleCommand, context: Context) -> None:
    for redirect in command.redirects:
        judge_redirect(redirect, context)
    for assignment in command.assignments:
        _judge_assignment(assignment, command)
    if command.words:
        judge_words(command.words, context)


def _judge_rest(text: str, script: Script, context: Context) -> None:
    for redirect in script.redirects:
        judge_redirect(redirect, context)
    for name in script.names:
        if not is_plain_variable(name.name):
            raise Refused(
                "assignment", f"sets {name.name}, which is bash's own", name.start, name.end
            )
    context.paths += _folders_of_patterns(script.values)
    for tested in script.tested:
        Call("[[", tested, (), context).path(tested)
    if context.opens_unknown:
        context.paths += _paths_of_variables(script.values) + _paths_in_expansions(text)
    if context.git_calls:
        for target in context.cd_targets:
            if not is_folder_below(target):
                raise Refused(
                    "git", "git after a change to another folder", target.start, target.end
                )


def _paths_of_variables(values: Sequence[Argument]) -> list[PathUse]:
    """What is read may be any of the paths that variables are given."""
    given = [v for v in values if "/" in v.shape or v.tilde or v.literal == ".."]
    return [use for use in map(path_use, given) if use is not None]


def _paths_in_expansions(text: str) -> list[PathUse]:
    """The paths in ``${x:-PATH}`` and ``${x/a/PATH}``."""
    return [
        PathUse(word, match.start(), match.end(), True)
        for match in _GIVEN_IN_EXPANSION.finditer(text)
        for word in match[1].split()
        if _LEAVES_THE_FOLDER.match(word)
    ]


def _folders_of_patterns(arguments: Sequence[Argument]) -> list[PathUse]:
    """What patterns begin with: they list a folder, whatever becomes of the names."""
    patterns = [item for item in arguments if item.many and "/" in item.shape]
    return [use for use in map(path_use, patterns) if use is not None]


def _judge_assignment(assignment: Assignment, command: SimpleCommand) -> None:
    name = assignment.name
    if not command.words:
        allowed = is_plain_variable(name)
    else:
        allowed = is_harmless_environment(name, assignment.value) or (
            name == "IFS" and command.words[0].literal == "read"
        )
    if not allowed:
        raise Refused(
            "assignment",
            f"sets {name}, which bash or programs may act on",
            assignment.start,
            assignment.end,
        )


def judge_redirect(redirect: Redirect, context: Context) -> None:
    """Refuse a redirection unless it reads a plain file, copies a descriptor, or discards.

    Raises:
        Refused: with code ``redirect`` or ``path``.
    """
    target = redirect.target
    operator = redirect.operator
    if operator in ("<<", "<<-", "<<<"):
        return
    if operator in ("<&", ">&") and target.literal and _DESCRIPTOR.fullmatch(target.literal):
        return
    if (
        operator in _WRITES
        and target.literal == "/dev/null"
        and (operator != ">&" or redirect.fd is None)
    ):
        return
    if operator == "<" and target.is_one_word:
        if target.literal in ("/dev/null", "/dev/stdin") or target.head == "/dev/fd/":
            return
        if _opens_a_plain_file(target):
            Call("<", target, (), context).path(target)
            return
    raise Refused(
        "redirect",
        "a redirection that may write, or that opens what is not known in advance",
        redirect.start,
        redirect.end,
    )


def _opens_a_plain_file(target: Argument) -> bool:
    """Whether the name is known not to be one that bash treats specially, or a device."""
    head = re.sub(r"/+", "/", target.head.removeprefix("~"))
    if _READ_TARGET_REFUSED.match(head):
        return False
    if target.literal is not None:
        return True
    may_become_special = any(place.startswith(head) for place in ("/dev/", "/proc/"))
    return head.strip("/.") != "" and not may_become_special


def judge_words(words: Sequence[Argument], context: Context) -> None:
    """Judge one program with its arguments.

    Raises:
        Refused: it is not known to only read.
    """
    word = words[0]
    name = word.literal
    if name is None:
        raise Refused(
            "command_name", "the program's name is not known in advance", word.start, word.end
        )
    if name.startswith(_SYSTEM_FOLDERS):
        name = name.rpartition("/")[2]
        if f"{word.literal}" not in {folder + name for folder in _SYSTEM_FOLDERS}:
            name = "/"
    if not _PROGRAM_NAME.fullmatch(name) or not name.isascii():
        raise Refused(
            "command_name",
            f"{word.shape!r} is not the plain name of a program",
            word.start,
            word.end,
        )
    rule = TABLE.get(name)
    if rule is None and name not in NEVER:
        rule = context.extra.get(name)
    if rule is None:
        raise Refused(
            "unknown_command", f"{name!r} is not known to only read", word.start, word.end
        )
    call = Call(name, word, tuple(words[1:]), context)
    context.paths += _folders_of_patterns(call.arguments)
    if not isinstance(rule, Spec):
        rule(call)
    elif rule.anything:
        call.anything(rule)
    else:
        _spec(call, rule)


def _spec(call: Call, rule: Spec) -> None:
    if rule.requires and not call.arguments:
        if "--stdout" in rule.requires:
            return
        raise call.refuse("option", "only reads with an option that says so")
    call.spec(rule)
