"""The environment of a host run, built from nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sandboxed_tools.errors import FieldError, InvalidInput
from sandboxed_tools.host.git_settings import git_settings
from sandboxed_tools.host.scratch import Scratch

__all__ = ["build_environment"]

_BASE: Final[Mapping[str, str]] = {
    # No /usr/local, no shims (rustup and pyenv run programs that the workspace names), and no empty
    # or relative entry.
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    # The system's file lies below /etc, which is closed, and git dies on what it cannot read.
    "GIT_CONFIG_NOSYSTEM": "1",
}

# What a caller may add: how output looks, and nothing that a program takes for an instruction.
_TAME: Final = frozenset(
    {"LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_NUMERIC", "LC_TIME", "LC_MESSAGES", "LANG", "TZ"}
    | {"NO_COLOR", "CLICOLOR", "FORCE_COLOR", "COLUMNS", "LINES"}
)


def build_environment(
    extra: Mapping[str, str], *, scratch: Scratch, workspace: Path, cwd: Path, trusted_git: bool
) -> dict[str, str]:
    """Every variable that the command gets; nothing of the client's own environment.

    Variables that the host run sets itself (``PATH``, ``HOME``, ``TMPDIR``, …) win over ``extra``,
    so that a command made for a container can be run here as well.

    Raises:
        InvalidInput: ``extra`` has a variable that could change what a program does.
    """
    own = dict(_BASE)
    own |= {"HOME": str(scratch.home), "TMPDIR": str(scratch.tmp), "PWD": str(cwd)}
    if trusted_git:
        own |= git_settings(workspace)
    wild = sorted(name for name in extra if name not in own and name not in _TAME)
    if wild:
        raise InvalidInput(
            "A command on the host may not set these variables: " + ", ".join(wild),
            fields=tuple(FieldError(f"env.{name}", "is not allowed here", "env") for name in wild),
        )
    tame = {name: value for name, value in extra.items() if name in _TAME}
    return own | tame
