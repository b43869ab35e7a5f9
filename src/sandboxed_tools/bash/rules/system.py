"""Programs about the machine, whose rule is more than a list of options."""

from __future__ import annotations

import re
from collections.abc import Callable

from sandboxed_tools.bash.options import Spec, names
from sandboxed_tools.bash.rules.call import Call

__all__ = ["check_date", "check_getent", "check_ip", "check_lsof", "check_ps", "exactly"]

DATE = Spec(
    short="uR",
    short_value="drf",
    short_optional="I",
    long=frozenset({"utc", "universal", "rfc-email", "debug"}),
    long_value=frozenset({"date", "reference", "file"}),
    long_optional=frozenset({"date", "reference", "file", "iso-8601", "rfc-3339"}),
    max_operands=1,
    dashed=names("-d --date"),
)
_IP_OPTIONS = names(
    "-br -brief -c -color -4 -6 -s -stats -statistics -d -details -o -oneline -j -json -p"
    " -pretty -V -Version -h -human -N -Numeric -t -timestamp -0"
)
_IP_OBJECTS = names(
    "a ad addr address l li link r ro route ru rule n ne neigh neighbour neighbor maddr"
    " maddress mroute ntable tunnel"
)
_IP_SHOW = frozenset({"show", "sh", "list", "lst", "ls"})
_IP_FILTER = re.compile(r"[A-Za-z0-9_.:/@-]+")
_PS_TAKES_VALUE = re.compile(r"-[AaefFjlLyHMNTwZ]*[oOCuUgGpst]|--sort|--format")
# What follows one of the letters oOptU is its value, whichever way the word is read.
_PS_MAY_BE_BSD_E = re.compile(r"-[A-NP-TV-Za-nq-su-z]*e.*")
_PS_SURELY_UNIX = re.compile(r"-[AadefFjlLHw]+|--(?:forest|no-headers?|sort(?:=.*)?|cols=\d+)")
_PS_SURELY_UNIX_FORMAT = re.compile(r"-[AadeLw]*o([A-Za-z0-9_,%=:]*)")
_LSOF = re.compile(
    r"-[nPtlRaU]+|-[nPtlRaU]*i(?:TCP|UDP|tcp|udp|4|6)?(?::[0-9,-]+)?|-sTCP:LISTEN|-p|-c|[0-9,]+|\+D|:[0-9]+"
)


def exactly(*forms: str) -> Callable[[Call], None]:
    """A rule that accepts these arguments, each as a whole pattern, and no others."""
    patterns = [re.compile(form) for form in forms]

    def check(call: Call) -> None:
        texts = call.literals()
        text = "\x1f".join(texts)
        # An empty argument is one: hostname '' sets the name.
        if "" in texts or not any(pattern.fullmatch(text) for pattern in patterns):
            raise call.refuse("option", "is known to only read with other arguments than these")

    return check


def check_date(call: Call) -> None:
    """``date``: an operand that does not begin with ``+`` sets the clock."""
    for operand in call.spec(DATE).operands:
        if not operand.head.startswith("+"):
            raise call.refuse("operand", "sets the clock", operand)


def check_ps(call: Call) -> None:
    """``ps``: without the BSD option ``e``, which shows the environment of other processes."""
    for index, text in enumerate(call.literals()):
        if "environ" in text.lower() or (
            re.fullmatch(r"[A-Za-z]*e[A-Za-z]*", text) and _is_bsd(call, index)
        ):
            raise call.refuse(
                "operand", "shows what belongs to other processes", call.arguments[index]
            )
    if any(_PS_MAY_BE_BSD_E.fullmatch(text) for text in call.literals()):
        _check_ps_is_unix(call)


def _check_ps_is_unix(call: Call) -> None:
    """``ps`` reads all its options once more as BSD's where they fail: ``-auxe``, ``-ef -x``."""
    texts = call.literals()
    formats = False
    flags = ""
    index = 0
    while index < len(texts):
        text = texts[index]
        index += 1
        if (match := _PS_SURELY_UNIX_FORMAT.fullmatch(text)) is not None:
            formats = True
            index += not match[1]
        elif _PS_SURELY_UNIX.fullmatch(text):
            index += text == "--sort"
            flags += "" if text.startswith("--") else text
        else:
            raise call.refuse(
                "option",
                "may be read as BSD's option e, for environments",
                call.arguments[index - 1],
            )
    if formats and not set(flags) <= set("-AadeLw"):
        raise call.refuse("option", "two formats, so -e may be read as BSD's, for environments")


def _is_bsd(call: Call, index: int) -> bool:
    """Whether a word without a dash is options, and not the value of the option before it."""
    before = call.literals()[index - 1] if index else ""
    return not _PS_TAKES_VALUE.fullmatch(before)


def check_getent(call: Call) -> None:
    texts = call.literals()
    if not texts or texts[0] not in ("passwd", "group", "services", "protocols", "rpc", "shells"):
        raise call.refuse("operand", "may ask the network")
    if any(text.startswith("-") for text in texts):
        raise call.refuse("option", "an option that is not known to only read")


def check_ip(call: Call) -> None:
    """``ip`` in its ``show`` forms: every other verb changes something or runs a program."""
    texts = call.literals()
    index = 0
    while index < len(texts) and texts[index] in _IP_OPTIONS:
        index += 1
    rest = texts[index:]
    if not rest:
        return
    shows = (
        len(rest) == 1
        or rest[1] in _IP_SHOW
        or (rest[0] in ("r", "ro", "route") and rest[1] == "get")
    )
    if rest[0] not in _IP_OBJECTS or not shows:
        raise call.refuse("operand", "only the show forms are known to only read")
    for text in rest[1:]:
        if not _IP_FILTER.fullmatch(text) or text.startswith("-"):
            raise call.refuse("operand", f"{text!r} is not understood")


def check_lsof(call: Call) -> None:
    """``lsof`` with ``-n``: without it, it asks the network for names."""
    texts = call.literals()
    if not all(_LSOF.fullmatch(text) for text in texts) or "+D" in texts:
        raise call.refuse("option", "an option that is not known to only read")
    if not any(re.match(r"-[PtlRaU]*n", text) for text in texts):
        raise call.refuse("option", "asks the network for names without -n")
