"""What an operator decides about a server; nothing of it can be changed by a client."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sandboxed_tools.builtin import SHIPPED
from sandboxed_tools.policy import Policy
from sandboxed_tools.runtime.toolbox import DEFAULT_IMAGE
from sandboxed_tools.sandbox.contract import ChangesMode, Network, Sandbox
from sandboxed_tools.sandbox.services import check_network
from sandboxed_tools.tool import AnyTool, Limits

__all__ = ["ServerOptions"]


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """One server.

    Attributes:
        tools: what clients can call.
        workspaces: the folders that a client may work in or below; the first is used when the
            client names none. Without any, calls see no files.
        policy, limits, image, network, services, changes, runtime: as a
            :class:`~sandboxed_tools.Toolbox` has them.
        sandbox: where contained calls run; the engine that answers here when omitted.
        asks: whether the client may be asked to confirm a call, on behalf of the person before it,
            where the policy's ``confirm_by`` lets it. Never over HTTP, where the caller would
            answer itself.
        side_by_side: calls of one client that run at the same time.
        waiting: further calls of one client that wait; beyond them a call is refused.
        sessions: clients at the same time, over HTTP.
        idle_s: seconds after which an HTTP session that nobody uses is closed.

    Raises:
        ConfigurationError: there is no such network, or one of the services cannot be one.
    """

    tools: tuple[AnyTool, ...] = SHIPPED
    workspaces: tuple[Path, ...] = ()
    policy: Policy = field(default_factory=Policy)
    limits: Limits = field(default_factory=Limits)
    image: str = DEFAULT_IMAGE
    network: Network = "none"
    services: tuple[tuple[str, str], ...] = ()
    changes: ChangesMode = "hold"
    runtime: str | None = None
    sandbox: Sandbox | None = None
    asks: bool = False
    side_by_side: int = 8
    waiting: int = 256
    sessions: int = 64
    idle_s: float = 1800.0

    def __post_init__(self) -> None:
        check_network(self.network, self.services)

    @property
    def has_network(self) -> bool:
        """Whether contained commands reach anything beyond their container."""
        return self.network != "none" or bool(self.services)
