"""Variables: which may be set, and which may be handed to a program.

Most of bash's own variables change how the rest of the text is run (``PATH``, ``IFS``,
``BASH_ENV``, ``PS4``, ``POSIXLY_CORRECT``), and any exported one is handed to every program, where
it may name code (``LD_PRELOAD``, ``PAGER``, ``GIT_*``, ``GCONV_PATH``). bash(1), Shell Variables;
ld.so(8).
"""

from __future__ import annotations

import re

from sandboxed_tools.bash.options import names

__all__ = ["is_harmless_environment", "is_plain_variable"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPECIAL_PREFIXES = (
    "BASH",
    "HIST",
    "COMP",
    "READLINE",
    "LC_",
    "LD_",
    "GIT_",
    "PROMPT_",
    "MAIL",
    "TEXTDOMAIN",
    "EPOCH",
    "PYTHON",
    "PERL",
    "RUBY",
    "NODE_",
    "LESS",
    "XDG_",
    "GCONV",
    "MALLOC_",
    "GLIBC_",
)
_SPECIAL = names(
    "_ PATH IFS ENV HOME PS0 PS1 PS2 PS3 PS4 CDPATH TMPDIR RANDOM SRANDOM OPTIND OPTARG"
    " OPTERR SECONDS TZ LANG LANGUAGE TERM TERMINFO PAGER EDITOR VISUAL SHELL SHELLOPTS SHLVL"
    " PWD OLDPWD UID EUID PPID GROUPS DIRSTACK FUNCNAME FUNCNEST LINENO GLOBIGNORE GLOBSORT FIGNORE"
    " EXECIGNORE INPUTRC FCEDIT POSIXLY_CORRECT TIMEFORMAT TMOUT IGNOREEOF COLUMNS LINES"
    " MAPFILE CHILD_MAX EMACS COPROC HOSTFILE HOSTNAME HOSTTYPE MACHTYPE OSTYPE PIPESTATUS"
    " auto_resume histchars LOCPATH NLSPATH TZDIR USER LOGNAME DISPLAY NO_COLOR CLICOLOR"
    " FORCE_COLOR LS_COLORS LOCALDOMAIN RES_OPTIONS HOSTALIASES"
)
# Only where a character is what it is in UTF-8, or a byte. In others (Big5, GBK, Shift JIS, which a
# name without a character set may mean, too) the last byte of a character joins with an ASCII sign
# that follows: sed and awk then see other delimiters than were judged.
_LOCALE = re.compile(r"(?:C|POSIX|(?:C|[a-z]{2,3}_[A-Z]{2})\.(?:UTF-8|utf-?8))?")
_ZONE = re.compile(r"(?:[A-Za-z0-9_+-]{1,30}(?:/[A-Za-z0-9_+-]{1,30}){0,2})?")
_SMALL = re.compile(r"[A-Za-z0-9]{0,10}")
_ENVIRONMENT = {
    "LC_ALL": _LOCALE,
    "LANG": _LOCALE,
    "LC_CTYPE": _LOCALE,
    "LC_COLLATE": _LOCALE,
    "LC_NUMERIC": _LOCALE,
    "LC_TIME": _LOCALE,
    "LC_MESSAGES": _LOCALE,
    "TZ": _ZONE,
    "NO_COLOR": _SMALL,
    "CLICOLOR": _SMALL,
    "FORCE_COLOR": _SMALL,
    "COLUMNS": _SMALL,
    # What the environment of a host run says already.
    "PAGER": re.compile("cat"),
    "GIT_PAGER": re.compile("(?:cat)?"),
    "GIT_OPTIONAL_LOCKS": re.compile("0"),
    "GIT_TERMINAL_PROMPT": re.compile("0"),
}


def is_plain_variable(name: str) -> bool:
    """Whether the shell variable means nothing to bash or to programs: any value is only data."""
    return (
        bool(_NAME.fullmatch(name))
        and name not in _SPECIAL
        and not name.startswith(_SPECIAL_PREFIXES)
    )


def is_harmless_environment(name: str, value: str | None) -> bool:
    """Whether ``name=value`` may be handed to a program that only reads."""
    pattern = _ENVIRONMENT.get(name)
    return pattern is not None and value is not None and bool(pattern.fullmatch(value))
