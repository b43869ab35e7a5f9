"""A connection over HTTP, whoever holds it: how long it may be silent, what it cannot become."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import ByteStream
from tests.mcp.serving import DEADLINE_S, http_server, until
from tests.mcp.slow_sandbox import SlowSandbox
from tests.runtime.recording_sandbox import RecordingSandbox

from sandboxed_tools.mcp import HttpAddress, ServerOptions, http_connection

SERVED = ServerOptions(sandbox=RecordingSandbox())


def test_a_connection_never_waits_for_an_acknowledgement() -> None:
    # Or each answer on a connection that a client keeps takes 40 ms more.
    address = HttpAddress.bind()
    here = (address.host, address.port)
    with address.socket, socket.create_connection(here, timeout=DEADLINE_S):
        accepted, _ = address.socket.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@pytest.mark.parametrize(
    "pieces",
    [
        [],
        ["POST /mcp HTTP/1.1\r\nHost: x\r\n"],
        ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHo"],
        ["POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", "a", "b"],
    ],
    ids=["nothing", "part of a head", "part of a second head", "a body that nobody wants"],
)
async def test_a_connection_that_shows_no_head_is_closed(
    pieces: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with http_server(SERVED) as running:
        with anyio.fail_after(DEADLINE_S):
            if len(pieces) < 2:
                monkeypatch.setattr(http_connection, "HEAD_DEADLINE_S", 0.3)
            async with await anyio.connect_tcp("127.0.0.1", running.address.port) as stream:
                for number, piece in enumerate(pieces):
                    await stream.send(piece.encode())
                    if number == 0 and len(pieces) > 1:
                        assert b" 421 " in await stream.receive()
                        # Only now: the head before was to be read in time by a busy machine.
                        monkeypatch.setattr(http_connection, "HEAD_DEADLINE_S", 0.3)
                await _read_to_the_end(stream)


async def _read_to_the_end(stream: ByteStream) -> None:
    try:
        while True:
            await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return


@pytest.mark.slow  # it waits for the real deadline: a shorter one would meet a busy machine
async def test_the_deadline_for_a_head_ends_no_call(tmp_path: Path) -> None:
    sandbox = SlowSandbox()
    async with http_server(ServerOptions(sandbox=sandbox, workspaces=(tmp_path,))) as running:
        async with running.client() as client, anyio.create_task_group() as tasks:
            answers: list[Any] = []

            async def call() -> None:
                answers.append(await client.call_tool("Bash", {"command": "touch x"}))

            tasks.start_soon(call)
            await until(lambda: sandbox.running == 1, what="the call runs")
            async with await anyio.connect_tcp("127.0.0.1", running.address.port) as silent:
                with anyio.fail_after(DEADLINE_S):
                    await _read_to_the_end(silent)  # as long as the deadline, at least
            sandbox.let_go.set()
        assert not answers[0].is_error


@pytest.mark.parametrize(("header", "status"), [({}, 401), ({"Host": "evil.example"}, 421)])
async def test_no_upgrade_gets_past_the_guard(header: dict[str, str], status: int) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    async with http_server(SERVED) as running, httpx2.AsyncClient(timeout=DEADLINE_S) as client:
        answer = await client.get(running.address.url, headers={**upgrade, **header})
        assert answer.status_code == status
