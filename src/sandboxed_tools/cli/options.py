"""Options that several commands take, each declared once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.policy import Policy
from sandboxed_tools.tool import Limits

__all__ = [
    "Cpus",
    "Image",
    "Json",
    "Memory",
    "NetworkOption",
    "Pids",
    "PythonImage",
    "Runtime",
    "ServiceOption",
    "SessionName",
    "Timeout",
    "TrustedWorkspace",
    "Workspace",
    "limits_from",
    "services_of",
    "session_policy",
]

_LIMITS = "Limits"

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Workspace = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        "-w",
        metavar="DIR",
        help="The folder to work on; seen copy-on-write in the container.",
    ),
]
SessionName = Annotated[
    str | None,
    typer.Option("--session", metavar="NAME", help="Go on with this session's held changes."),
]
Image = Annotated[str | None, typer.Option("--image", help="The image of the container.")]
PythonImage = Annotated[
    str | None,
    typer.Option(
        "--python-image", help="The image of Python tools and code, as sandboxed-tools/data."
    ),
]
Runtime = Annotated[
    str | None, typer.Option("--runtime", help="The engine's runtime, such as runsc.")
]
NetworkOption = Annotated[
    str,
    typer.Option(
        "--network",
        metavar="NETWORK",
        help="none; bridge for the engine's own; or compose:PROJECT/NETWORK for its services.",
    ),
]
ServiceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--service",
        metavar="NAME=CONTAINER",
        help="A running container that commands find as NAME; may be repeated.",
    ),
]
TrustedWorkspace = Annotated[
    bool,
    typer.Option(
        "--trusted-workspace",
        help="Trust the workspace's git configuration: read-only git may run on the host.",
    ),
]
Timeout = Annotated[
    str | None,
    typer.Option("--timeout", "-t", metavar="SECONDS", rich_help_panel=_LIMITS, help="Wall clock."),
]
Memory = Annotated[
    str | None,
    typer.Option("--memory", "-m", metavar="SIZE", rich_help_panel=_LIMITS, help="As in 512m."),
]
Cpus = Annotated[
    str | None,
    typer.Option("--cpus", metavar="N", rich_help_panel=_LIMITS, help="Cores; at least 0.1."),
]
Pids = Annotated[
    str | None,
    typer.Option("--pids", metavar="N", rich_help_panel=_LIMITS, help="Processes and threads."),
]


def limits_from(
    *,
    timeout: str | None = None,
    memory: str | None = None,
    cpus: str | None = None,
    pids: str | None = None,
) -> Limits:
    """Limits from the texts of the options; what is not given keeps its default.

    Raises:
        InvalidLimits: names each option that cannot be used and what it may be.
    """
    given: dict[str, Any] = {
        "wall_s": timeout,
        "memory_bytes": memory,
        "cpus": cpus,
        "pids": pids,
    }
    return Limits.of(**{name: value for name, value in given.items() if value is not None})


def services_of(items: Sequence[str] | None) -> dict[str, str]:
    """The containers that ``--service`` names, by the names that commands find them under.

    Raises:
        ConfigurationError: one of the texts is no pair.
    """
    pairs = [item.partition("=") for item in items or ()]
    if bad := [pair[0] for pair in pairs if not pair[1]]:
        raise ConfigurationError(f"--service is NAME=CONTAINER, not {bad[0]!r}.")
    return {name: container for name, _, container in pairs}


def session_policy(*, trusted_workspace: bool) -> Policy:
    """What the options state of the policy; what was not given is left to the other layers."""
    return Policy(trusted_workspace=True) if trusted_workspace else Policy()
