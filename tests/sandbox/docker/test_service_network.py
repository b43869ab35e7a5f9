"""A call can join services, and through their network reaches them and nothing else."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import psutil
import pytest
from tests.sandbox.docker.running import ENV

from sandboxed_tools.errors import ServiceUnavailable
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker.backend import DockerSandbox
from sandboxed_tools.sandbox.docker.cleanup import gc
from sandboxed_tools.sandbox.docker.owner import Owner
from sandboxed_tools.sandbox.docker.service_network import ServiceNetwork
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.result import ExecResult

if TYPE_CHECKING:
    import docker

pytestmark = pytest.mark.engine

PORT = 7777
# Says its name to whoever connects, on every address that it has now or later.
SERVER = f"""
import socket
server = socket.create_server(("0.0.0.0", {PORT}), reuse_port=True)
while True:
    connection, _ = server.accept()
    connection.sendall(b"the service\\n")
    connection.close()
"""
# Tries each HOST:PORT of its arguments, all at once; prints those that something answers at.
KNOCK = """
import socket, sys, threading
def knock(target):
    host, _, port = target.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=3).close()
    except OSError:
        return
    print(target, flush=True)
threads = [threading.Thread(target=knock, args=(target,)) for target in sys.argv[1:]]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


@dataclass(frozen=True)
class Services:
    """What is there to be reached: a service, and a listener on every address of this host."""

    container: str
    host_port: int
    sandbox: DockerSandbox
    image: str

    def spec(self, **options: Any) -> SandboxSpec:
        return SandboxSpec(self.image, limits=Limits.of(wall_s=60), **options)

    def joined(self) -> SandboxSpec:
        return self.spec(services=(("db", self.container),))

    def run(self, spec: SandboxSpec, *argv: str) -> ExecResult:
        return anyio.run(self.sandbox.run, spec, Command(argv, env=ENV))

    def knock(self, spec: SandboxSpec, *targets: str) -> set[str]:
        result = self.run(spec, "python3", "-c", KNOCK, *targets)
        assert result.ok, result
        return set(result.stdout_text.split())


def run_service(api: docker.APIClient, image: str, **labels: str) -> str:
    made = api.create_container(
        image,
        command=["python3", "-c", SERVER],
        labels={**Owner.current().labels(deadline_s=600, kind="test"), **labels},
        host_config=api.create_host_config(),
    )
    api.start(made["Id"])
    return str(made["Id"])


@pytest.fixture(scope="module")
def services(engine: Any, sandbox: DockerSandbox, base_image: str) -> Iterator[Services]:
    api = engine.api()
    listener = socket.create_server(("0.0.0.0", 0), backlog=64)
    container = run_service(
        api,
        base_image,
        **{
            "com.docker.compose.project": "proof",
            "com.docker.compose.service": "named-by-compose",
            "com.docker.compose.container-number": "1",
            "com.docker.compose.oneoff": "False",
        },
    )
    try:
        yield Services(container, listener.getsockname()[1], sandbox, base_image)
    finally:
        listener.close()
        api.remove_container(container, force=True, v=True)
        api.close()


def own_networks(api: docker.APIClient) -> list[str]:
    mine = {"label": f"sandboxed-tools.installation={Owner.current().installation}"}
    return [found["Name"] for found in api.networks(filters=mine)]


def until_gone(api: docker.APIClient) -> None:
    deadline = time.monotonic() + 30
    while own_networks(api):
        assert time.monotonic() < deadline, own_networks(api)
        time.sleep(0.05)


def host_addresses() -> list[str]:
    return [
        address.address
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family == socket.AF_INET and not address.address.startswith("127.")
    ]


def test_the_service_is_reached_by_its_name(services: Services) -> None:
    assert services.knock(services.joined(), f"db:{PORT}") == {f"db:{PORT}"}


def test_neither_gateway_nor_host_nor_metadata_service_is_reached(services: Services) -> None:
    host = [f"{address}:{services.host_port}" for address in host_addresses()]
    assert host, "this host has no address but loopback"
    # The addresses beside the container's own: the bridge would have one of them.
    script = (
        "import subprocess, sys; own = open('/etc/hosts').read().split()\n"
        "address = own[own.index('sandbox') - 1]; net = address.rpartition('.')[0]\n"
        f"near = [f'{{net}}.{{n}}:{services.host_port}' for n in range(1, 255)]\n"
        f"far = {[*host, f'127.0.0.1:{services.host_port}', '169.254.169.254:80']!r}\n"
        f"subprocess.run(['python3', '-c', {KNOCK!r}, *near[:16], *far], check=True)\n"
    )
    result = services.run(services.joined(), "python3", "-c", script)
    assert result.ok, result
    assert result.stdout_text == ""


def test_the_same_listener_is_reached_over_the_ordinary_bridge(services: Services) -> None:
    """The control of the test before: without this, that one could not fail."""
    targets = [f"{address}:{services.host_port}" for address in host_addresses()]
    assert services.knock(services.spec(network="bridge"), *targets)


def test_the_link_has_no_ipv6_over_which_the_bridge_could_be_reached(services: Services) -> None:
    result = services.run(services.joined(), "grep", "-v", "lo$", "/proc/net/if_inet6")
    assert result.exit_code in (1, 2), result.stdout_text


def test_no_resolver_answers_for_names_outside(services: Services) -> None:
    script = (
        "import socket, struct\n"
        "def ask(server, name):\n"
        "    q = struct.pack('>6H', 7, 256, 1, 0, 0, 0)\n"
        "    for part in name.split('.'):\n"
        "        q += bytes([len(part)]) + part.encode()\n"
        "    q += b'\\0\\0\\1\\0\\1'\n"
        "    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(6)\n"
        "    try:\n"
        "        s.sendto(q, (server, 53)); answer = s.recv(512)\n"
        "    except OSError:\n"
        "        return 0\n"
        "    return struct.unpack('>H', answer[6:8])[0]\n"
        "print(ask('127.0.0.11', 'deb.debian.org'), ask('127.0.0.11', 'sandbox'))\n"
    )
    result = services.run(services.joined(), "python3", "-c", script)
    assert result.ok, result
    assert result.stdout_text.split()[0] == "0"
    resolvers = services.run(services.joined(), "grep", "^nameserver", "/etc/resolv.conf")
    assert resolvers.stdout_text in ("nameserver 127.0.0.11\n", "nameserver 127.0.0.1\n")


def test_what_the_engine_does_not_know_it_asks_nobody_for() -> None:
    """Engines ask a resolver on loopback, which many hosts have, from the host's own network."""
    options = ServiceNetwork("net", (("db", "172.20.0.2"),)).options()
    assert options["Dns"] == ["127.0.0.1"]
    assert options["ExtraHosts"] == ["db:172.20.0.2"]


def test_two_calls_with_the_same_service_do_not_reach_each_other(services: Services) -> None:
    addresses: list[bytes] = []
    is_up = threading.Event()

    def heard(_: str, data: bytes) -> None:
        addresses.append(data)
        if data.endswith(b"\n"):
            is_up.set()

    listen = (
        "import socket, sys; server = socket.create_server(('0.0.0.0', 7001))\n"
        "own = open('/etc/hosts').read().split()\n"
        "print(own[own.index('sandbox') - 1], flush=True)\n"
        "socket.create_connection(('127.0.0.1', 7001), timeout=5).close(); sys.stdin.read()\n"
    )

    async def both() -> set[str]:
        async with anyio.create_task_group() as group:
            command = Command(("python3", "-c", listen), env=ENV, stdin=held_open())
            group.start_soon(services.sandbox.run, services.joined(), command, heard)
            assert await anyio.to_thread.run_sync(is_up.wait, 60)
            address = b"".join(addresses).decode().strip()
            found = await services.sandbox.run(
                services.joined(),
                Command(("python3", "-c", KNOCK, f"{address}:7001", f"db:{PORT}"), env=ENV),
            )
            group.cancel_scope.cancel()
        assert found.ok, found
        return set(found.stdout_text.split())

    assert anyio.run(both) == {f"db:{PORT}"}


async def held_open() -> Any:
    await anyio.sleep_forever()
    yield b""


def test_a_call_without_services_reaches_none(services: Services, api: docker.APIClient) -> None:
    networks = api.inspect_container(services.container)["NetworkSettings"]["Networks"]
    targets = [f"{item['IPAddress']}:{PORT}" for item in networks.values() if item["IPAddress"]]
    assert services.knock(services.spec(), *targets) == set()


def test_services_of_a_compose_network_are_found_under_their_own_names(
    services: Services, api: docker.APIClient
) -> None:
    labels = Owner.current().labels(deadline_s=600, kind="test")
    made = api.create_network(
        "st-proof-compose",
        internal=True,
        labels={
            **labels,
            "com.docker.compose.project": "proof",
            "com.docker.compose.network": "back",
        },
    )
    try:
        with pytest.raises(ServiceUnavailable, match="no service"):
            services.run(services.spec(network="compose:proof/back"), "true")
        api.connect_container_to_network(services.container, made["Id"])
        spec = services.spec(network="compose:proof/back")
        assert services.knock(spec, f"named-by-compose:{PORT}") == {f"named-by-compose:{PORT}"}
        with pytest.raises(ServiceUnavailable, match="no network front"):
            services.run(services.spec(network="compose:proof/front"), "true")
    finally:
        api.disconnect_container_from_network(services.container, made["Id"], force=True)
        api.remove_network(made["Id"])


def test_a_service_that_is_not_there_is_named_and_leaves_nothing(
    services: Services, api: docker.APIClient
) -> None:
    spec = services.spec(services=(("db", services.container), ("queue", "st-no-such-container")))
    with pytest.raises(ServiceUnavailable, match="queue"):
        services.run(spec, "true")
    until_gone(api)


def test_a_sandboxed_call_cannot_be_joined_as_a_service(
    services: Services, api: docker.APIClient
) -> None:
    labels = Owner.current().labels(deadline_s=600, kind="call")
    made = api.create_container(services.image, command=["sleep", "60"], labels=labels)
    try:
        api.start(made["Id"])
        with pytest.raises(ServiceUnavailable, match="sandboxed call"):
            services.run(services.spec(services=(("victim", made["Id"]),)), "true")
    finally:
        api.remove_container(made["Id"], force=True)


def test_after_the_call_the_service_has_only_the_networks_that_it_had(
    services: Services, api: docker.APIClient
) -> None:
    until_gone(api)
    before = api.inspect_container(services.container)["NetworkSettings"]["Networks"].keys()
    assert services.run(services.joined(), "true").ok
    until_gone(api)
    after = api.inspect_container(services.container)["NetworkSettings"]["Networks"].keys()
    assert after == before


def test_clean_up_removes_the_network_of_a_dead_call_with_the_service_still_on_it(
    services: Services, api: docker.APIClient
) -> None:
    dead = subprocess.run(
        [
            sys.executable,
            "-c",
            "from sandboxed_tools.sandbox.docker.owner import Owner; import json;"
            "print(json.dumps(Owner.current().labels(deadline_s=600, kind='network')))",
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    made = api.create_network("st-proof-dead", internal=True, labels=json.loads(dead.stdout))
    try:
        api.connect_container_to_network(services.container, made["Id"])
        report = gc(api)
        assert "st-proof-dead" in {item.name for item in report.removed}
        assert api.networks(names=["st-proof-dead"]) == []
    finally:
        with contextlib.suppress(Exception):
            api.remove_network(made["Id"])
