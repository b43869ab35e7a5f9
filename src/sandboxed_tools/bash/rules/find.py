"""find: predicates by name, with the number of values that each takes.

Not in the table, so refused: ``-delete``, ``-exec`` with a program that may do more than read,
``-execdir``, ``-ok``, ``-okdir``, ``-fls``, ``-fprint…``, ``-files0-from``. find(1).
"""

from __future__ import annotations

import re

from sandboxed_tools.bash.options import names
from sandboxed_tools.bash.rules.call import Call
from sandboxed_tools.bash.syntax import Argument

__all__ = ["check_find"]

_NO_VALUE = names(
    "-print -print0 -prune -quit -ls -depth -d -mount -xdev -empty -readable -writable"
    " -executable -true -false -nouser -nogroup -daystart -follow -nowarn -warn -noleaf -a"
    " -and -o -or -not -ignore_readdir_race -noignore_readdir_race -help --help -version"
    " --version ( ) ! ,"
)
_ONE_VALUE = names(
    "-name -iname -path -ipath -wholename -iwholename -lname -ilname -regex -iregex"
    " -regextype -type -xtype -size -mtime -mmin -atime -amin -ctime -cmin -newer -anewer"
    " -cnewer -user -group -uid -gid -perm -links -inum -samefile -maxdepth -mindepth -fstype"
    " -used -printf -context"
)
_FILE_VALUE = frozenset({"-newer", "-anewer", "-cnewer", "-samefile"})
_NEWER = re.compile(r"-newer[aBcm][aBcmt]")
_BEFORE_PATHS = frozenset({"-H", "-L", "-P"})
_PATTERN_WITH_SUFFIX = re.compile(r"[\w./*?\[\]-]*\.[A-Za-z]\w*")


def check_find(call: Call) -> None:
    arguments = list(call.arguments)
    index = 0
    while index < len(arguments) and arguments[index].literal in _BEFORE_PATHS:
        index += 1
    starts: list[Argument] = []
    while index < len(arguments) and not arguments[index].may_begin_with("-(!,"):
        starts.append(arguments[index])
        call.path(arguments[index])
        index += 1
    while index < len(arguments):
        index = _predicate(call, arguments, index, starts)


def _predicate(call: Call, arguments: list[Argument], index: int, starts: list[Argument]) -> int:
    argument = arguments[index]
    name = argument.literal
    if name is None:
        raise call.refuse(
            "expansion",
            f"{argument.shape!r} is not known in advance and may be a predicate",
            argument,
        )
    index += 1
    if name in _NO_VALUE:
        return index
    if name == "-exec":
        return _exec(call, arguments, index, starts)
    if name not in _ONE_VALUE and not _NEWER.fullmatch(name):
        raise call.refuse("option", f"{name} is not known to only read", argument)
    if index >= len(arguments):
        raise call.refuse("option", f"{name} lacks its value", argument)
    value = arguments[index]
    if value.splits or (value.many and not _harmless_pattern(value)):
        raise call.refuse("expansion", f"the value of {name} may become several words", value)
    if name in _FILE_VALUE or (name.startswith("-newer") and not name.endswith("t")):
        call.path(value)
    return index + 1


def _harmless_pattern(value: Argument) -> bool:
    """A pattern such as ``*.py``: further words end in ``.py``, and no predicate does."""
    return value.shape == value.shape.strip() and bool(_PATTERN_WITH_SUFFIX.fullmatch(value.shape))


def _exec(call: Call, arguments: list[Argument], index: int, starts: list[Argument]) -> int:
    words: list[Argument] = []
    for end in range(index, len(arguments)):
        argument = arguments[end]
        plus = argument.literal == "+" and bool(words) and words[-1].shape == "{}"
        if argument.literal == ";" or plus:
            break
        words.append(argument)
    else:
        raise call.refuse("syntax", "-exec without its end", arguments[index - 1])
    if any(not word.is_one_word for word in words):
        raise call.refuse("expansion", "-exec with words that are not known in advance", words[0])
    call.judge([_found(word, starts, plus=plus) for word in words])
    return end + 1


def _found(word: Argument, starts: list[Argument], *, plus: bool) -> Argument:
    """The word with ``{}`` replaced by a name that find makes: it begins with a starting point."""
    if "{}" not in word.head and "{}" not in word.shape:
        return word
    if word.literal is None:
        return Argument(None, "", "*", word.start, word.end, splits=True)
    before = word.literal.partition("{}")[0]
    heads = {start.head for start in starts} or {"."}
    head = before or (heads.pop() if len(heads) == 1 else "")
    return Argument(
        None,
        head,
        before + "*" if before else head + "/*",
        word.start,
        word.end,
        many=plus and word.literal == "{}",
        plain_start=not before,
        relative=not before and not any(s.may_begin_with("/~") for s in starts),
    )
