"""Builtins of bash whose effect depends on their arguments."""

from __future__ import annotations

import re
from dataclasses import replace

from sandboxed_tools.bash.conditionals import ARITHMETIC_OPERATORS, FILE_OPERATORS, UNARY_OPERATORS
from sandboxed_tools.bash.options import Spec, match_options
from sandboxed_tools.bash.paths import is_below_kernel_files
from sandboxed_tools.bash.rules.call import Call
from sandboxed_tools.bash.variables import is_harmless_environment, is_plain_variable

__all__ = [
    "check_cd",
    "check_declare",
    "check_exit",
    "check_export",
    "check_mapfile",
    "check_printf",
    "check_read",
    "check_set",
    "check_shopt",
    "check_test",
    "check_trap",
    "check_ulimit",
    "check_unset",
]

READ = Spec(short="rs", short_value="nNdtup", paths="none")
_BINARY = FILE_OPERATORS | ARITHMETIC_OPERATORS | {"=", "==", "!=", "<", ">"}
_JOINERS = frozenset({"-a", "-o", "(", ")", "!"})
_FORMAT = re.compile(
    r"(?:[^%]|%%|%[#0 +'-]*(?:[0-9]+|\*)?(?:\.(?:[0-9]+|\*)?)?(?:hh|h|ll|l|L|j|z|t)?"
    r"(?:[diouxXeEfFgGaAcsbqQ]|\([^()]*\)T))*",
    re.DOTALL,
)
_SET_LETTERS = re.compile(r"[-+][eufx]+")
_SET_NAMES = frozenset({"errexit", "nounset", "pipefail", "xtrace", "noglob"})
_SIGNAL = re.compile(r"(?:SIG)?[A-Z0-9]{1,8}")
_EXIT = re.compile(r"[0-9]{1,3}")


def check_cd(call: Call) -> None:
    """``cd`` and ``pushd``: noted, because a later git then looks elsewhere."""
    found = match_options(
        Spec(short="PLe", max_operands=1, paths="none", unknown="any"), call.name, call.arguments
    )
    for operand in found.operands:
        if is_below_kernel_files(operand.shape):
            raise call.refuse(
                "path", "files there are devices, or belong to other processes", operand
            )
        call.path(operand)
        call.context.cd_targets.append(operand)
    if not found.operands:
        call.context.cd_targets.append(replace(call.word, literal="~"))


def check_test(call: Call) -> None:
    """``test`` and ``[``: ``-v`` evaluates a subscript, so operators must be plain to see."""
    words = list(call.arguments)
    if call.name == "[":
        if not words or words[-1].literal != "]":
            raise call.refuse("syntax", "no closing bracket")
        words.pop()
    for word in words:
        if not word.is_one_word:
            raise call.refuse("expansion", "an operand that may become several words", word)
        if word.literal in ("-v", "-R"):
            raise call.refuse("option", f"{word.literal} evaluates the name that follows", word)
    texts = [word.literal for word in words]
    if None in texts and not _positions_are_plain(texts):
        raise call.refuse("expansion", "an operator may come from an expansion")
    for text, word in zip(texts, words, strict=True):
        if text is None or "/" in text:
            call.path(word)


def _positions_are_plain(texts: list[str | None]) -> bool:
    """Whether no unknown text can be taken for an operator (POSIX test: by argument count)."""
    if texts and texts[0] == "!":
        return len(texts) <= 4 and _positions_are_plain(texts[1:])
    if len(texts) <= 1:
        return True
    if len(texts) == 2:
        return texts[0] in UNARY_OPERATORS
    if len(texts) == 3:
        return texts[1] in _BINARY
    return False


def check_printf(call: Call) -> None:
    """``printf``: ``-v`` and ``%n`` set variables."""
    arguments = list(call.arguments)
    if arguments and arguments[0].literal == "--":
        arguments = arguments[1:]
    elif arguments and arguments[0].may_begin_with("-"):
        if arguments[0].literal in ("--version", "--help", "-"):
            return
        raise call.refuse(
            "option", "the format may be an option, and -v sets a variable", arguments[0]
        )
    if not arguments:
        return
    format_text = arguments[0].literal
    if format_text is None:
        if len(arguments) > 1 or not arguments[0].is_one_word:
            raise call.refuse(
                "expansion", "the format is not known, and %n sets a variable", arguments[0]
            )
    elif not _FORMAT.fullmatch(format_text):
        raise call.refuse("operand", "a format that is not understood", arguments[0])


def check_read(call: Call) -> None:
    found = match_options(READ, call.name, call.arguments)
    for operand in found.operands:
        name = call.literal(operand)
        if not is_plain_variable(name):
            raise call.refuse("assignment", f"sets {name!r}", operand)


def check_mapfile(call: Call) -> None:
    found = match_options(
        Spec(short="t", short_value="dnsu", max_operands=1, paths="none"), call.name, call.arguments
    )
    for operand in found.operands:
        if not is_plain_variable(call.literal(operand)):
            raise call.refuse("assignment", "sets a variable of bash's own", operand)


def check_set(call: Call) -> None:
    texts = call.literals()
    if texts in (["-o"], ["+o"]):
        return
    index = 0
    while index < len(texts):
        text = texts[index]
        takes_name = text in ("-o", "+o") or re.fullmatch(r"[-+][eufx]*o", text) is not None
        if takes_name and index + 1 < len(texts) and texts[index + 1] in _SET_NAMES:
            index += 2
        elif _SET_LETTERS.fullmatch(text):
            index += 1
        else:
            raise call.refuse(
                "option", f"{text!r} changes how the rest is run", call.arguments[index]
            )


def check_shopt(call: Call) -> None:
    texts = call.literals()
    if not texts or texts == ["-p"]:
        return
    if texts[:1] not in (["-s"], ["-u"]) or not set(texts[1:]) <= {
        "globstar",
        "dotglob",
        "nocaseglob",
    }:
        raise call.refuse("option", "changes how the rest is read")


def check_exit(call: Call) -> None:
    for argument in call.arguments:
        if not argument.number and not _EXIT.fullmatch(call.literal(argument)):
            raise call.refuse("operand", "a status that is not a number", argument)


def check_trap(call: Call) -> None:
    texts = call.literals()
    if texts in (["-l"], ["-p"], []):
        return
    if not (texts and texts[0] == "-" and all(_SIGNAL.fullmatch(text) for text in texts[1:])):
        raise call.refuse("operand", "sets what runs on a signal")


def check_export(call: Call) -> None:
    """``export`` of a harmless locale or colour setting, to the letter."""
    if not call.arguments or call.literals() == ["-p"]:
        return
    for argument in call.arguments:
        name, equals, value = call.literal(argument).partition("=")
        if not equals or not is_harmless_environment(name, value):
            raise call.refuse("assignment", f"hands {name!r} to every program", argument)


def check_declare(call: Call) -> None:
    texts = call.literals()
    if texts[:1] != ["-p"] or not all(
        re.fullmatch(r"[A-Za-z_]\w*", text, re.ASCII) for text in texts[1:]
    ):
        raise call.refuse("operand", "may set variables, or evaluate their values")


def check_unset(call: Call) -> None:
    for argument in call.arguments:
        text = call.literal(argument)
        if text != "-v" and not is_plain_variable(text):
            raise call.refuse("assignment", f"unsets {text!r}", argument)


def check_ulimit(call: Call) -> None:
    for argument in call.arguments:
        if not re.fullmatch(r"-[SHabcdefiklmnpqrstuvxPRT]+", call.literal(argument)):
            raise call.refuse("operand", "changes a limit", argument)
