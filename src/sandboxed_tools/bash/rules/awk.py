"""awk: the program is cut into tokens, and only words and operators that compute are known.

``system``, pipes and ``getline`` run programs, ``>`` after ``print`` writes files, gawk's ``@``
calls a function by a name made at run time, ``/inet/…`` file names open sockets, and so would a
changed ``ARGV``. What could be read as either a division or a regular expression is refused,
because a wrong guess would hide code inside a string (gawk manual, "Redirecting Output", "TCP/IP
Networking", "Indirect Function Calls").
"""

from __future__ import annotations

import re

from sandboxed_tools.bash.options import Spec, match_options, names
from sandboxed_tools.bash.rules.call import Call
from sandboxed_tools.bash.syntax import Argument

__all__ = ["awk_program_problem", "check_awk"]

AWK = Spec(short_value="Fv", permute=False, paths="none")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_REFUSED_WORDS = names(
    "system getline close fflush function func ENVIRON ARGV ARGC ARGIND SYMTAB FUNCTAB"
    " PROCINFO extension include load namespace eval stopme adump"
)
_FUNCTIONS = names(
    "length substr index split sub gsub match sprintf tolower toupper int sqrt exp log sin"
    " cos atan2 rand srand strftime systime mktime gensub asort asorti patsplit strtonum and"
    " or xor compl lshift rshift"
)
_KEYWORDS = names(
    "BEGIN END BEGINFILE ENDFILE if else while for do in print printf next nextfile exit"
    " return delete break continue switch case default"
)
_BEFORE_PARENTHESIS = _FUNCTIONS | _KEYWORDS
_TOKEN = re.compile(
    r"""(?P<blank>[ \t]+)
    | (?P<newline>\n)
    | (?P<string>"(?:[^"\\\n]|\\[^\n])*")
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+)
    | (?P<operator>&&|\|\||\+\+|--|[-+*%^!<>=]=|[-+*%^!<>=~?:,;(){}\[\]$/])
    """,
    re.VERBOSE,
)
_REGEX = re.compile(r"/((?:[^/\\\n]|\\[^\n])+)/")
# A bracket inside another is only the name of a class. gawk and mawk take a slash in brackets for a
# part of the regular expression: what follows is code for them where it looked like a string.
_BRACKETS_CLOSE = re.compile(
    r"(?:[^\[\\]|\\.|\[\^?+\]?+(?:[^\]\[\\]|\\.|\[:[a-z]++:\])*+\])*+", re.DOTALL
)
_CONTINUES = frozenset({",", "&&", "||", "?", ":", "(", "{"})


def check_awk(call: Call) -> None:
    if [argument.literal for argument in call.arguments] in (["--version"], ["-V"]):
        return
    found = match_options(AWK, call.name, call.arguments)
    for value in found.values:
        if value.option == "-v":
            match = _VARIABLE.match(value.head)
            if match is None or match[1] in _REFUSED_WORDS:
                raise call.refuse("option", "an assignment that is not understood", value.argument)
    if not found.operands:
        raise call.refuse("operand", "no program")
    program = found.operands[0]
    problem = awk_program_problem(call.literal(program))
    if problem is not None:
        raise call.refuse("script", problem, program)
    for operand in found.operands[1:]:
        _check_operand(call, operand)


def _check_operand(call: Call, operand: Argument) -> None:
    if operand.literal is None and not operand.relative and _may_be_a_socket(operand):
        raise call.refuse(
            "expansion", f"{operand.shape!r} may be a network file of gawk's", operand
        )
    if operand.head.startswith("/inet") or re.match(r"[A-Za-z_]\w*=", operand.head):
        raise call.refuse("operand", f"{operand.shape!r} is not an ordinary file", operand)
    call.path(operand)


def _may_be_a_socket(operand: Argument) -> bool:
    if operand.shape.startswith("*/"):
        # What comes before the slash may be empty.
        head = operand.shape[1:].partition("*")[0]
    elif operand.may_begin_with("/"):
        head = operand.head
    else:
        return False
    return "/inet".startswith(head[:5])


def awk_program_problem(program: str) -> str | None:
    """Why a program is not known to only compute, or ``None`` when it is."""
    previous = ""
    kind = ""
    after_print = assigns = False
    braces = parentheses = 0
    position = 0
    while position < len(program):
        match = _TOKEN.match(program, position)
        if match is None:
            return f"the character {program[position]!r} in the program"
        text, this = match[0], match.lastgroup or ""
        position = match.end()
        if this == "blank":
            continue
        if this == "newline":
            if previous not in _CONTINUES:
                after_print = assigns = False
            continue
        if this == "name":
            if text[0] in "xX" and program[: match.start()].endswith("0"):
                # 0xagetline is the number 0xa and getline.
                return "a number that can be read in two ways"
            if text in _REFUSED_WORDS:
                return f"the word {text!r} in the program"
            if program[position:].lstrip(" \t").startswith("(") and text not in _BEFORE_PARENTHESIS:
                return f"a call of {text!r} in the program"
            after_print = after_print or text in ("print", "printf")
        elif text in (";", "{", "}"):
            after_print = assigns = False
            braces += (text == "{") - (text == "}")
        elif text == "(" and kind == "string":
            return "a string before a parenthesis"
        elif text in ("(", ")"):
            parentheses += 1 if text == "(" else -1
        elif text in (">", ">=") and after_print:
            return "a > after print, which writes a file"
        elif text == ">" and braces and not parentheses and not assigns:
            return "a > whose meaning is not plain"
        elif text == "=":
            assigns = True
        elif text == ":" and previous == ":":
            return "a name space in the program"
        elif text == "/":
            problem, position = _slash(program, match.start(), previous, kind)
            if problem is not None:
                return problem
            text, this = ("/", "operator") if position == match.end() else ("", "regex")
        previous, kind = text, this
    return None


def _slash(program: str, start: int, previous: str, kind: str) -> tuple[str | None, int]:
    """Whether a slash divides or begins a regular expression: a problem, and where to go on."""
    if program[start + 1 : start + 2] == "=":
        return "a division that assigns, or a regular expression", start
    if previous in _FUNCTIONS or previous in ("++", "--") or kind in ("string", "regex"):
        return "a slash that can be read in two ways", start
    if kind == "number" or previous == "]" or (kind == "name" and previous not in _KEYWORDS):
        return None, start + 1
    if previous == ")":
        if "/" in program[start + 1 :]:
            return "a slash that can be read in two ways", start
        return None, start + 1
    match = _REGEX.match(program, start)
    if match is None or not _BRACKETS_CLOSE.fullmatch(match[1]):
        return "a regular expression that can be read in two ways", start
    return None, match.end()
