"""A command that is process 1 itself, where there is no launcher to carry it in-band."""

from __future__ import annotations

from dataclasses import dataclass

from sandboxed_tools.errors import UnsupportedOnEngine
from sandboxed_tools.sandbox.docker.create import Mould
from sandboxed_tools.tool.command import Command

__all__ = ["Direct", "direct_command"]

# Without a launcher the environment must travel in the container's configuration, where everybody
# who may ask the engine can read it; these say nothing about anybody.
HARMLESS_VARIABLES = frozenset(
    {"PATH", "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TERM", "TZ"}
    | {"USER", "LOGNAME", "SHELL", "PWD", "TMPDIR", "NO_COLOR", "GIT_TERMINAL_PROMPT"}
)


@dataclass(frozen=True, slots=True)
class Direct:
    """What goes into the container's configuration in that case."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str | None


def direct_command(mould: Mould, command: Command) -> Direct | None:
    """The command as process 1, where there is no launcher.

    Raises:
        UnsupportedOnEngine: the call needs what only the launcher can carry.
    """
    if mould.launcher != "none":
        return None
    if command.script is not None:
        raise UnsupportedOnEngine("this image cannot take the launcher, which carries the script")
    told = sorted(set(command.env) - HARMLESS_VARIABLES)
    if told:
        raise UnsupportedOnEngine(
            "this image cannot take the launcher, and without it variables would be readable by "
            f"everybody who may ask the engine: leave out {', '.join(told[:5])}"
        )
    return Direct(argv=command.argv, env=dict(command.env), cwd=command.cwd)
