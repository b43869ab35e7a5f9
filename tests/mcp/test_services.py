"""A server whose contained commands have a network: what clients are told, and what they reach."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from tests.mcp.serving import DEADLINE_S, stdio_server
from tests.runtime.recording_sandbox import RecordingSandbox

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.mcp import ServerOptions, Sessions, build_server
from sandboxed_tools.policy import Policy
from sandboxed_tools.sandbox.docker.owner import Owner

COMPOSE = "compose:proof-of-mcp/back"
SERVICES = (("db", "some-container"),)
ANSWER = """
import socket
server = socket.create_server(("0.0.0.0", 7777), reuse_port=True)
print("listens", flush=True)
while True:
    connection, _ = server.accept()
    connection.sendall(b"the service\\n")
    connection.close()
"""
ASK = "python3 -c 'import socket; print(socket.create_connection((\"db\", 7777), 60).recv(99))'"


@asynccontextmanager
async def connected(**options: Any) -> AsyncIterator[tuple[Client, RecordingSandbox]]:
    sandbox = RecordingSandbox()
    async with (
        Sessions(ServerOptions(sandbox=sandbox, **options)) as sessions,
        Client(build_server(sessions), mode="legacy") as client,
    ):
        yield client, sandbox


async def yes(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"answer": "once"})


@pytest.mark.parametrize(
    ("options", "told", "is_open"),
    [
        ({}, "without network", False),
        ({"network": "bridge"}, "with a network", True),
        ({"network": COMPOSE}, "reaches its services and nothing else", True),
        ({"services": SERVICES}, "reaches its services (db) and nothing else", True),
    ],
)
async def test_a_model_and_a_client_are_told_what_commands_reach(
    options: dict[str, Any], told: str, is_open: bool
) -> None:
    async with connected(**options) as (client, _):
        assert told in (client.instructions or "")
        (bash,) = [item for item in (await client.list_tools()).tools if item.name == "Bash"]
        assert bash.annotations is not None
        assert bash.annotations.open_world_hint is is_open


async def test_services_reach_the_sandbox_once_a_rule_allows_what_is_not_contained() -> None:
    allow = Policy.model_validate({"allow": ["Bash(make:*)"]})
    async with connected(services=SERVICES, network=COMPOSE, policy=allow) as (client, sandbox):
        assert (await client.call_tool("Bash", {"command": "touch x"})).is_error
        assert sandbox.runs == []
        assert not (await client.call_tool("Bash", {"command": "make test"})).is_error
    ((spec, _),) = sandbox.runs
    assert (spec.network, spec.services) == (COMPOSE, SERVICES)


@pytest.mark.parametrize(
    "options",
    [
        {"network": "host"},
        {"network": "compose:x"},
        {"network": "bridge", "services": SERVICES},
        {"services": (("localhost", "x"),)},
        {"services": (("a", "x"), ("A", "y"))},
    ],
)
def test_what_is_no_network_and_no_service_is_said_before_anything_is_served(
    options: dict[str, Any],
) -> None:
    with pytest.raises(ConfigurationError):
        ServerOptions(**options)


@pytest.fixture
def service(engine: Any, base_image: str) -> Iterator[str]:
    api = engine.api()
    made = api.create_container(
        base_image,
        command=["python3", "-c", ANSWER],
        labels=Owner.current().labels(deadline_s=600, kind="test"),
        host_config=api.create_host_config(),
    )
    try:
        api.start(made["Id"])
        deadline = time.monotonic() + DEADLINE_S
        while b"listens" not in api.logs(made["Id"]):
            assert time.monotonic() < deadline, "the service never listened"
            time.sleep(0.1)
        yield str(made["Id"])
    finally:
        api.remove_container(made["Id"], force=True, v=True)
        api.close()


@pytest.mark.engine
async def test_a_command_of_a_client_talks_to_the_service_that_the_operator_named(
    tmp_path: Path, service: str
) -> None:
    server = stdio_server("-w", tmp_path, "--service", f"db={service}")
    async with Client(server, mode="legacy", elicitation_callback=yes) as client:
        result = await client.call_tool("Bash", {"command": ASK})
        assert not result.is_error, result
        assert "the service" in result.structured_content["stdout"], result
