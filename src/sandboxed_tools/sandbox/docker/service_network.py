"""A network for one call, with the services that it may talk to, and nothing else.

A network that is merely *internal* still has the bridge's address on it, and through that the
host's own services; ``inhibit_ipv4`` leaves the address away (moby, ``bridge.inhibit_ipv4``), and
engines from 28.0 on (API 1.48) have the gateway mode ``isolated`` for it. Names come from
``/etc/hosts``: what the engine's own resolver does not know it would ask the host's resolvers for.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from docker.errors import APIError
from requests.exceptions import RequestException

from sandboxed_tools.errors import EngineFault, ServiceUnavailable
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker.clients import Clients
from sandboxed_tools.sandbox.docker.faults import status_code
from sandboxed_tools.sandbox.docker.owner import LABEL_PREFIX
from sandboxed_tools.sandbox.services import ComposeNetwork, compose_network

if TYPE_CHECKING:
    import docker

__all__ = [
    "ServiceNetwork",
    "empty_network",
    "new_network_name",
    "open_service_network",
    "remove_service_network",
]

_log = logging.getLogger(__name__)

NAME_PREFIX = "sandboxed-tools-net-"
COMPOSE = "com.docker.compose."
ISOLATED_SINCE = (1, 48)
REMOVE_DEADLINE_S = 15.0
_ERRORS = (APIError, RequestException, OSError)


@dataclass(frozen=True, slots=True)
class ServiceNetwork:
    """The network of one call: its name, and under which address it finds which service."""

    name: str
    hosts: tuple[tuple[str, str], ...]

    def options(self) -> dict[str, Any]:
        """What the container's ``HostConfig`` gets."""
        options: dict[str, Any] = {
            "NetworkMode": self.name,
            "ExtraHosts": [f"{name}:{address}" for name, address in self.hosts],
            # The engine's resolver asks these, in the container's own namespace: nobody is there.
            "Dns": ["127.0.0.1"],
            "DnsSearch": ["."],
            "DnsOptions": ["timeout:1", "attempts:1"],
        }
        if os.path.exists("/proc/sys/net/ipv6"):
            # Some engines leave IPv6 on in networks without it (CVE-2024-32473), and then the
            # bridge's link-local address is a way to the host.
            options["Sysctls"] = {
                "net.ipv6.conf.all.disable_ipv6": "1",
                "net.ipv6.conf.default.disable_ipv6": "1",
            }
        return options


def open_service_network(
    api: docker.APIClient, spec: SandboxSpec, *, name: str, labels: Mapping[str, str]
) -> ServiceNetwork:
    """Make a network and connect the services of ``spec`` to it. Blocking.

    When it fails, ``remove_service_network`` cleans up what is there of it.

    Raises:
        ServiceUnavailable: a service does not run, or may not be joined.
        APIError: the engine could not do it.
    """
    services = _services(api, spec)
    api.create_network(
        name,
        driver="bridge",
        internal=True,
        enable_ipv6=False,
        check_duplicate=True,
        labels=dict(labels),
        options=_bridge_options(api),
    )
    hosts = []
    for service, container_id in services.items():
        try:
            api.connect_container_to_network(container_id, name)
        except APIError as error:
            if status_code(error) in (400, 403, 404, 409):
                raise ServiceUnavailable(
                    f"the service {service} cannot be joined", operator_detail=str(error)
                ) from error
            raise
        hosts.append((service, _address(api, container_id, name, service)))
    return ServiceNetwork(name, tuple(hosts))


def new_network_name() -> str:
    """A name that no other network has."""
    return NAME_PREFIX + secrets.token_hex(8)


def _bridge_options(api: docker.APIClient) -> dict[str, str]:
    version = tuple(int(part) for part in api.api_version.split("."))
    if version >= ISOLATED_SINCE:
        return {"com.docker.network.bridge.gateway_mode_ipv4": "isolated"}
    return {"com.docker.network.bridge.inhibit_ipv4": "true"}


# ---- which containers ----


def _services(api: docker.APIClient, spec: SandboxSpec) -> dict[str, str]:
    """Name to container id. Stated services go before those that compose names so."""
    compose = compose_network(spec.network)
    found = _of_compose(api, compose) if compose is not None else {}
    for name, container in spec.services:
        try:
            found[name] = _joinable(api.inspect_container(container), name)
        except APIError as error:
            if status_code(error) != 404:
                raise
            raise ServiceUnavailable(
                f"there is no container {container} for the service {name}"
            ) from error
    return found


def _joinable(inspected: Mapping[str, Any], name: str) -> str:
    """The id of a running container that is not one of a call.

    Raises:
        ServiceUnavailable
    """
    labels = inspected["Config"].get("Labels") or {}
    if labels.get(f"{LABEL_PREFIX}kind") in ("call", "warm", "probe"):
        raise ServiceUnavailable(f"the service {name} is a sandboxed call, which nobody may join")
    if not inspected["State"].get("Running"):
        raise ServiceUnavailable(f"the service {name} does not run")
    return str(inspected["Id"])


def _of_compose(api: docker.APIClient, wanted: ComposeNetwork) -> dict[str, str]:
    """The services on a network of a compose project; of several replicas, the first.

    Raises:
        ServiceUnavailable: there is no such network, or nothing runs on it.
    """
    networks = api.networks(
        filters={
            "label": [f"{COMPOSE}project={wanted.project}", f"{COMPOSE}network={wanted.network}"]
        }
    )
    if len(networks) != 1:
        raise ServiceUnavailable(
            f"there is no network {wanted.network} of a compose project {wanted.project}: "
            "bring the project up first"
        )
    containers = api.containers(filters={"label": f"{COMPOSE}project={wanted.project}"})
    found: dict[str, tuple[int, str]] = {}
    for container in containers:
        labels = container.get("Labels") or {}
        attached = (container.get("NetworkSettings") or {}).get("Networks") or {}
        name = str(labels.get(f"{COMPOSE}service", ""))
        number = str(labels.get(f"{COMPOSE}container-number", "1"))
        is_there = any(item.get("NetworkID") == networks[0]["Id"] for item in attached.values())
        is_one_off = str(labels.get(f"{COMPOSE}oneoff", "")).lower() == "true"
        if not name or is_one_off or not is_there or not number.isdecimal():
            continue
        place = (int(number), str(container["Id"]))
        found[name] = min(found.get(name, place), place)
    if not found:
        raise ServiceUnavailable(f"no service of the compose project {wanted.project} runs there")
    return {
        name: _joinable(api.inspect_container(identity), name)
        for name, (_, identity) in sorted(found.items())
    }


def _address(api: docker.APIClient, container_id: str, network: str, service: str) -> str:
    networks = api.inspect_container(container_id)["NetworkSettings"]["Networks"]
    address = str(networks.get(network, {}).get("IPAddress", ""))
    try:
        return str(ipaddress.IPv4Address(address))
    except ValueError:
        raise EngineFault(f"the engine gave the service {service} no address") from None


# ---- the end ----


def remove_service_network(clients: Clients, name: str) -> bool:
    """Take the services off the network and remove it; ``False`` when it is still there."""
    deadline = time.monotonic() + REMOVE_DEADLINE_S
    while True:
        try:
            with clients.lend(timeout_s=REMOVE_DEADLINE_S) as api:
                empty_network(api, name)
                api.remove_network(name)
        except _ERRORS as error:
            if status_code(error) == 404:
                return True
            _log.debug("network %s could not be removed: %s", name, error)
        else:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)


def empty_network(api: docker.APIClient, name: str) -> None:
    """Disconnect whatever is on a network. A container that is going by itself is no error."""
    for container_id in api.inspect_network(name).get("Containers") or {}:
        try:
            api.disconnect_container_from_network(container_id, name, force=True)
        except APIError as error:
            _log.debug("%s could not be taken off %s: %s", container_id, name, error)
