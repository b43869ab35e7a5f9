"""What the command of a tool does, by the programs that its text names."""

from __future__ import annotations

import ast
from typing import Final

from sandboxed_tools.lint.definitions import Definitions
from sandboxed_tools.lint.effects import Effect, Effects, argument
from sandboxed_tools.lint.known import CONNECTS, EVALUATES, WRITES
from sandboxed_tools.lint.scopes import External, Scope
from sandboxed_tools.policy.command_parts import SHELLS, base_name, split_command

__all__ = ["effects_of_command"]

_INTERPRETERS: Final = frozenset({"node", "perl", "php", "python", "python3", "ruby"})
_KINDS: Final = {
    **dict.fromkeys(
        {"chgrp", "chmod", "chown", "cp", "dd", "install", "kill", "ln", "mkdir", "mkfifo", "mv"}
        | {"pkill", "rm", "rmdir", "shred", "tee", "touch", "truncate", "unlink"},
        WRITES,
    ),
    **dict.fromkeys(
        ("curl", "ftp", "nc", "rsync", "scp", "sftp", "ssh", "telnet", "wget"), CONNECTS
    ),
}
_GIT_WRITES: Final = frozenset(
    {"add", "am", "apply", "checkout", "cherry-pick", "clean", "commit", "gc", "merge", "mv"}
    | {"rebase", "reset", "restore", "revert", "rm", "stash", "switch"}
)
_GIT_CONNECTS: Final = frozenset({"clone", "fetch", "pull", "push"})


def effects_of_command(expression: ast.expr, definitions: Definitions, scope: Scope) -> Effects:
    """The effects of the commands that the function of ``command=`` makes, where they are known:
    a program that is not is passed over."""
    effects = Effects()
    for function in definitions.follow(expression, scope):
        if not isinstance(function, ast.FunctionDef | ast.Lambda):
            continue
        for node, inner in definitions.inside(function, scope):
            if isinstance(node, ast.Call) and _makes_a_command(node, definitions, inner):
                words = _words(node, definitions, inner)
                kind = _kind(words)
                if kind is not None:
                    effects.found.append(Effect(kind, str(words[0]), node))
    return effects


def _makes_a_command(call: ast.Call, definitions: Definitions, scope: Scope) -> bool:
    return any(
        isinstance(one, External) and one.name.rpartition(".")[2] == "Command"
        for one in definitions.follow(call.func, scope)
    )


def _words(call: ast.Call, definitions: Definitions, scope: Scope) -> list[str | None]:
    """The words that are constants; ``None`` for others. Empty where the list is not spelled."""
    argv = argument(call, 0, "argv")
    if not isinstance(argv, ast.Tuple | ast.List):
        return []
    values = [definitions.literal(element, scope) for element in argv.elts]
    return [value if isinstance(value, str) else None for value in values]


def _kind(words: list[str | None]) -> str | None:
    program = base_name(words[0] or "") if words else ""
    code = words[words.index("-c") + 1 :][:1] if "-c" in words else []
    if program in SHELLS and code:
        if code[0] is None:
            return EVALUATES
        kinds = [_KINDS.get(name) for name in sorted(split_command(code[0]).programs)]
        return next(filter(None, kinds), None)
    if program in _INTERPRETERS and {"-c", "-e"} & set(words) and None in words:
        return EVALUATES
    if program == "git":
        said = set(words[1:])
        return CONNECTS if said & _GIT_CONNECTS else WRITES if said & _GIT_WRITES else None
    return _KINDS.get(program)
