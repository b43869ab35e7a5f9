"""Which network a call gets: none, the engine's own, or one of its own with services on it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.tool.foreign_text import for_terminal

__all__ = ["MAX_SERVICES", "ComposeNetwork", "check_network", "compose_network", "joins_services"]

Services = tuple[tuple[str, str], ...]

MAX_SERVICES: Final = 32
# Names go into /etc/hosts: labels of RFC 1123, and the underscore that compose projects use.
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9_.-]{0,61}[a-z0-9])?", re.IGNORECASE)
_CONTAINER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_COMPOSE: Final = re.compile(
    r"compose:([a-z0-9][a-z0-9_.-]{0,127})/([A-Za-z0-9][\w.-]{0,127})", re.A
)
_OWN_NAMES: Final = frozenset({"localhost", "sandbox"})


@dataclass(frozen=True, slots=True)
class ComposeNetwork:
    """A network of a compose project, by the names that its file gives them."""

    project: str
    network: str


def compose_network(network: str) -> ComposeNetwork | None:
    """What ``compose:PROJECT/NETWORK`` names; ``None`` for any other network."""
    match = _COMPOSE.fullmatch(network)
    return ComposeNetwork(*match.groups()) if match else None


def joins_services(network: str, services: Services) -> bool:
    """Whether a call with these gets a network of its own."""
    return bool(services) or network.startswith("compose:")


def check_network(network: object, services: object) -> None:
    """Refuse what is no network, or no services.

    Raises:
        ConfigurationError: says what is expected instead.
    """
    if not isinstance(network, str) or (
        network not in ("none", "bridge") and compose_network(network) is None
    ):
        shown = for_terminal(str(network)[:100], one_line=True)
        raise ConfigurationError(
            f"{shown!r} is no network: none, bridge, or compose:PROJECT/NETWORK."
        )
    if not isinstance(services, tuple) or len(services) > MAX_SERVICES:
        raise ConfigurationError(
            f"Services are at most {MAX_SERVICES} pairs of name and container."
        )
    if services and network == "bridge":
        raise ConfigurationError(
            "A call with services has a network of its own: leave the network out, or name a "
            "compose network."
        )
    names: set[str] = set()
    for pair in services:
        _check_pair(pair)
        name = pair[0].lower()
        if name in names:
            raise ConfigurationError(f"Two services are named {name!r}.")
        names.add(name)


def _check_pair(pair: object) -> None:
    if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(x, str) for x in pair)):
        raise ConfigurationError("A service is a pair of its name and a container.")
    name, container = pair
    if _NAME.fullmatch(name) is None or name.lower() in _OWN_NAMES:
        shown = for_terminal(name[:100], one_line=True)
        raise ConfigurationError(f"{shown!r} is no name for a service.")
    if _CONTAINER.fullmatch(container) is None:
        shown = for_terminal(container[:100], one_line=True)
        raise ConfigurationError(f"{shown!r} is no container.")
