"""Builtins of bash that may be read-only, with what each may be given. bash(1), SHELL BUILTINS."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sandboxed_tools.bash.options import Spec
from sandboxed_tools.bash.rules import shell, starters, system
from sandboxed_tools.bash.rules.call import Rule

__all__ = ["BUILTINS"]

BUILTINS: Mapping[str, Rule] = MappingProxyType(
    {
        "cd": shell.check_cd,
        "pushd": shell.check_cd,
        "popd": Spec(max_operands=0, paths="none"),
        "dirs": Spec(short="clpv", max_operands=0, paths="none"),
        "test": shell.check_test,
        "[": shell.check_test,
        "printf": shell.check_printf,
        "read": shell.check_read,
        "mapfile": shell.check_mapfile,
        "readarray": shell.check_mapfile,
        "set": shell.check_set,
        "shopt": shell.check_shopt,
        "exit": shell.check_exit,
        "return": shell.check_exit,
        "trap": shell.check_trap,
        "export": shell.check_export,
        "declare": shell.check_declare,
        "unset": shell.check_unset,
        "ulimit": shell.check_ulimit,
        "wait": system.exactly(r"|-n|[0-9]{1,7}"),
        "umask": system.exactly(r"|-S|-p"),
        "kill": system.exactly(r"-l(?:\x1f[A-Z0-9]+)?|-L"),
        "jobs": Spec(short="lnprs", max_operands=0, paths="none"),
        "history": system.exactly(r"|[0-9]{1,6}"),
        "alias": system.exactly(r"|-p"),
        "enable": system.exactly(r"|-p|-a"),
        "hash": system.exactly(r"|-l"),
        "command": starters.check_command,
        "builtin": starters.check_builtin,
        "exec": starters.check_builtin,
    }
)
"""Those with a rule of their own; the others are in the table, as programs that read or print."""
