"""Programs and builtins that start another: their own options, then the rest is judged again.

``nohup``, ``setsid``, ``sudo``, ``watch``, ``flock``, ``script``, shells and the like are not here:
they write, change who runs, or outlive the call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sandboxed_tools.bash.options import OptionValue, Spec, match_options
from sandboxed_tools.bash.rules.call import Call, is_version
from sandboxed_tools.bash.syntax import Argument
from sandboxed_tools.bash.variables import is_harmless_environment, is_plain_variable

__all__ = [
    "check_builtin",
    "check_command",
    "check_env",
    "check_nice",
    "check_stdbuf",
    "check_timeout",
    "check_xargs",
]

_DURATION = re.compile(r"[0-9]+(?:\.[0-9]+)?[smhd]?")
_NICE_NUMBER = re.compile(r"-[0-9]{1,2}|-n-?[0-9]{1,2}|--adjustment=-?[0-9]{1,2}")
_STDBUF = re.compile(
    r"-[ioe](?:0|L|[0-9]{1,9}[KMG]?)|--(?:input|output|error)=(?:0|L|[0-9]{1,9}[KMG]?)"
)
_ENVIRONMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9_.+:\[-]+")

TIMEOUT = Spec(
    short="v",
    short_value="ks",
    long=frozenset({"preserve-status", "foreground", "verbose"}),
    long_value=frozenset({"kill-after", "signal"}),
    permute=False,
    paths="none",
    unknown="never",
)
XARGS = Spec(
    short="0rtx",
    short_value="nLPsIdaE",
    long=frozenset({"null", "no-run-if-empty", "verbose", "exit"}),
    long_value=frozenset({"max-args", "max-procs", "max-chars", "delimiter", "arg-file"}),
    permute=False,
    paths="none",
    unknown="never",
)


def _own_part(call: Call, spec: Spec) -> tuple[int, dict[str, OptionValue]]:
    """How many arguments are the program's own, and their values."""
    arguments = call.arguments
    index = 0
    while index < len(arguments):
        text = arguments[index].literal
        if text is None or not text.startswith("-") or text == "-":
            break
        if text == "--":
            index += 1
            break
        index += 1
        last = text[-1]
        takes_next = (
            text[2:] in spec.long_value
            if text.startswith("--")
            else last in spec.short_value and not any(c in spec.short_value for c in text[1:-1])
        )
        index += takes_next
    index = min(index, len(arguments))
    own = [item for item in arguments[:index] if item.literal != "--"]
    found = match_options(spec, call.name, own)
    if found.operands:
        raise call.refuse("option", "options that are not understood", found.operands[0])
    return index, {value.option: value for value in found.values}


def check_timeout(call: Call) -> None:
    if is_version(call):
        return
    index, _ = _own_part(call, TIMEOUT)
    rest = call.arguments[index:]
    if not rest or not _DURATION.fullmatch(call.literal(rest[0])):
        raise call.refuse("operand", "no duration that is known", rest[0] if rest else None)
    call.judge(rest[1:])


def check_nice(call: Call) -> None:
    rest = list(call.arguments)
    if not rest or is_version(call):
        return
    if rest[0].literal in ("-n", "--adjustment") and len(rest) > 1:
        if not re.fullmatch(r"-?[0-9]{1,2}", call.literal(rest[1])):
            raise call.refuse("operand", "a priority that is not a number", rest[1])
        rest = rest[2:]
    else:
        while rest and _NICE_NUMBER.fullmatch(rest[0].literal or ""):
            rest = rest[1:]
    call.judge(rest)


def check_stdbuf(call: Call) -> None:
    rest = list(call.arguments)
    while rest:
        text = rest[0].literal or ""
        if _STDBUF.fullmatch(text):
            rest = rest[1:]
        elif (
            text in ("-i", "-o", "-e")
            and len(rest) > 1
            and _STDBUF.fullmatch("-o" + (rest[1].literal or "?"))
        ):
            rest = rest[2:]
        else:
            break
    call.judge(rest)


def check_env(call: Call) -> None:
    rest = list(call.arguments)
    if not rest or is_version(call) or [item.literal for item in rest] == ["-0"]:
        return
    while rest:
        if rest[0].literal in ("-u", "--unset") and len(rest) > 1:
            if not is_plain_variable(call.literal(rest[1])):
                raise call.refuse("assignment", "unsets what programs act on", rest[1])
            rest = rest[2:]
            continue
        match = _ENVIRONMENT.fullmatch(rest[0].literal or "")
        if match is None:
            break
        if not is_harmless_environment(match[1], match[2]):
            raise call.refuse("assignment", f"sets {match[1]}, which programs may act on", rest[0])
        rest = rest[1:]
    if rest:
        call.judge(rest)


def check_command(call: Call) -> None:
    """``command``: ``-v`` and ``-V`` only look up, otherwise the rest runs."""
    rest = list(call.arguments)
    first = rest[0].literal if rest else None
    if first in ("-v", "-V", "-pv", "-pV"):
        return
    if first in ("-p", "--"):
        rest = rest[1:]
    call.judge(rest)


def check_builtin(call: Call) -> None:
    """``builtin NAME …`` and ``exec PROGRAM …`` without options of their own."""
    if not call.arguments and call.name == "exec":
        return
    call.judge(call.arguments)


def check_xargs(call: Call) -> None:
    """``xargs``: what it reads becomes any number of arguments, which may be options."""
    index, values = _own_part(call, XARGS)
    for option in ("-a", "--arg-file"):
        if option in values:
            call.path(values[option].argument, values[option].shape)
    rest = call.arguments[index:]
    if not rest:
        return
    where = rest[-1]
    place = values.get("-I")
    if place is None:
        read = Argument(None, "", "*", where.start, where.end, splits=True)
        call.judge([*rest, read])
        return
    mark = place.literal
    if not mark or mark.startswith("-"):
        raise call.refuse("option", "-I without a plain text to replace", place.argument)
    if sum("I" in (item.literal or "") for item in call.arguments[:index]) != 1:
        raise call.refuse("option", "-I more than once", place.argument)
    words = _replaced(rest, mark)
    if {"-n", "-L", "--max-args"} & values.keys():
        # GNU xargs lets the later of -I and -n win; both ways must be harmless.
        words.append(Argument(None, "", "*", where.start, where.end, splits=True))
    call.judge(words)


def _replaced(words: Sequence[Argument], mark: str) -> list[Argument]:
    result: list[Argument] = []
    for word in words:
        if word.literal is None:
            result.append(Argument(None, "", "*", word.start, word.end, splits=True))
        elif mark in word.literal:
            head = word.literal.partition(mark)[0]
            shape = word.literal.replace(mark, "*")
            result.append(Argument(None, head, shape, word.start, word.end))
        else:
            result.append(word)
    return result
