"""What any sandbox must do, whatever runs behind it.

``testing.conformance`` is the executable form of this contract: any backend can be put through it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from sandboxed_tools.sandbox.services import check_network, joins_services
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.mounts import (
    ChangesMode,
    ContainerUser,
    Mount,
    View,
    ViewProvider,
    ViewUsage,
    WorkspaceAccess,
    WorkspaceMount,
)
from sandboxed_tools.tool.result import ExecResult, Stream

__all__ = [
    "Capabilities",
    "Capability",
    "ChangesMode",
    "ContainerUser",
    "Mount",
    "Network",
    "OutputSink",
    "Sandbox",
    "SandboxSpec",
    "SharedAmongCallers",
    "View",
    "ViewProvider",
    "ViewUsage",
    "WorkspaceAccess",
    "WorkspaceMount",
]

Network = str
"""``none``; ``bridge``, which reaches whatever the engine's own network reaches; or
``compose:PROJECT/NETWORK``, which reaches the services on that network of a compose project and
nothing else (:mod:`sandboxed_tools.sandbox.services`)."""

OutputSink = Callable[[Stream, bytes], None]
"""Called with each piece of live output, in order for each stream. It runs apart from the pump that
reads the engine: it may be slow, and what it raises is reported, not propagated into the pump. When
it falls far behind, pieces are dropped from the live view (never from the result)."""


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """Everything that makes a sandbox what it is, apart from the command.

    Two calls with equal specs can be served by containers made from the same mould.
    ``image`` is a reference; the backend resolves it to a digest before use.
    ``waiting`` is the argv of a program that a container starts as soon as it is made, without
    output, and that waits on its standard input for the call: a container that stands ready has its
    start behind it. The command must then name that program, and no environment or directory: the
    program finds the directory of the call in ``SANDBOX_CWD``.
    ``services`` are pairs of a name and the running container that the command finds under it, on a
    network of this call alone that reaches nothing else.

    Raises:
        ConfigurationError: the network or the services cannot be used.
    """

    image: str
    limits: Limits = field(default_factory=Limits)
    workspace: WorkspaceMount | None = None
    network: Network = "none"
    runtime: str | None = None
    waiting: tuple[str, ...] = ()
    services: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        check_network(self.network, self.services)

    @property
    def joins_services(self) -> bool:
        """Whether the command gets a network of its own with services on it."""
        return joins_services(self.network, self.services)


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing that the engine may or may not enforce here, and the evidence.

    ``state``: ``enforced`` was proved by a probe, ``weaker`` works with a stated difference,
    ``missing`` does not hold, ``unknown`` could not be probed.
    """

    name: str
    state: Literal["enforced", "weaker", "missing", "unknown"]
    evidence: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What was found and proved about a backend on this machine."""

    backend: str
    facts: dict[str, str]
    items: tuple[Capability, ...]


class Sandbox(Protocol):
    """Runs one command in an environment that is thrown away afterwards."""

    async def run(
        self, spec: SandboxSpec, command: Command, on_output: OutputSink | None = None
    ) -> ExecResult:
        """Run ``command`` and return how it ended, with every process of it dead.

        A command that fails is a result. On cancellation the processes are killed and everything
        is released before the cancellation goes on.

        Raises:
            SandboxUnavailable: the sandbox itself failed, one subclass for each cause.
            InvalidWorkspace: the workspace may not be used.
        """
        ...

    async def capabilities(self) -> Capabilities:
        """Probe what this sandbox really enforces here."""
        ...

    async def aclose(self) -> None:
        """Release everything; afterwards no container, volume or mount of this object is left."""
        ...


class SharedAmongCallers(Sandbox, Protocol):
    """A sandbox that tells its callers apart, so that they take turns."""

    def for_caller(self, key: str, *, priority: int = 0) -> Sandbox:
        """The same sandbox as one of its callers sees it. Closing that closes nothing."""
        ...
