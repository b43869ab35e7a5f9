"""The server over HTTP: who gets in, who is kept apart, and what ends a call."""

from __future__ import annotations

import hmac
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import ByteStream
from mcp import MCPError
from tests.mcp.serving import DEADLINE_S, Running, http_server, texts, until
from tests.mcp.slow_sandbox import SlowSandbox
from tests.runtime.recording_sandbox import RecordingSandbox

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.mcp import HttpAddress, ServerOptions
from sandboxed_tools.mcp import http as http_module

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    return folder


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[Running]:
    async with http_server(ServerOptions(**{"sandbox": RecordingSandbox(), **options})) as running:
        yield running


async def request(running: Running, method: str = "POST", **options: Any) -> httpx2.Response:
    headers = {**ACCEPT, **running.headers, **options.pop("headers", {})}
    headers = {name: value for name, value in headers.items() if value is not None}
    url = options.pop("url", running.address.url)
    options.setdefault(
        "json", INITIALIZE if method == "POST" and "content" not in options else None
    )
    async with httpx2.AsyncClient(timeout=DEADLINE_S) as client:
        return await client.request(method, url, headers=headers, **options)


async def test_a_client_with_the_token_lists_and_calls(workspace: Path) -> None:
    async with serving(workspaces=(workspace,)) as running, running.client() as client:
        assert "Bash" in {tool.name for tool in (await client.list_tools()).tools}
        result = await client.call_tool("Bash", {"command": "touch x"})
        assert result.structured_content["stdout"] == "recorded\n"
        found = await client.call_tool("Glob", {"pattern": "*.txt"})
        assert "a.txt" in texts(found)


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer wrong",
        "Basic {token}",
        "{token}",
        "Bearer {token}x",
        "Bearer x{token}",
        "Bearer {token} {token}",
        "Bearer " + "x" * 8000,
        "Bearer \xff",
    ],
)
async def test_nobody_gets_in_without_the_token(authorization: str | None) -> None:
    async with serving() as running:
        shown = authorization and authorization.replace("{token}", running.address.token)
        sent = None if shown is None else shown.encode("latin-1")
        answer = await request(running, headers={"Authorization": sent})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert not running.sessions._sessions


async def test_two_tokens_are_none() -> None:
    async with serving() as running:
        pairs = [*ACCEPT.items(), ("Authorization", running.headers["Authorization"])] * 2
        async with httpx2.AsyncClient(timeout=DEADLINE_S) as client:
            answer = await client.post(running.address.url, json=INITIALIZE, headers=pairs)
        assert answer.status_code in (400, 401)


async def test_the_token_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []
    real = hmac.compare_digest

    def recording(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return bool(real(one, other))

    monkeypatch.setattr(hmac, "compare_digest", recording)
    async with serving() as running:
        for token in ("y", "x", running.address.token):
            await request(running, headers={"Authorization": f"Bearer {token}"})
    assert compared == [(32, 32)] * 3, "digests of one length, whatever was sent"


def test_every_server_has_a_token_of_its_own() -> None:
    addresses = [HttpAddress.bind() for _ in range(3)]
    for address in addresses:
        address.socket.close()
    assert len({address.token for address in addresses}) == 3
    assert all(len(address.token) >= 32 for address in addresses)
    assert all(address.host == "127.0.0.1" for address in addresses)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1:{port}x",
        "127.0.0.1:{port}.evil.example",
        "localhost.evil.example:{port}",
        "0.0.0.0:{port}",
        "user@127.0.0.1:{port}",
    ],
)
async def test_a_host_that_is_not_exactly_ours_is_refused(host: str) -> None:
    async with serving() as running:
        sent = host.replace("{port}", str(running.address.port))
        answer = await request(running, headers={"Host": sent})
        assert answer.status_code == 421


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "https://127.0.0.1:{port}",
        "http://127.0.0.1",
        "http://127.0.0.1:{port}.evil.example",
        "http://127.0.0.1:{port}/",
        "null",
        "",
        "file://",
    ],
)
async def test_an_origin_that_is_not_exactly_ours_is_refused(origin: str) -> None:
    async with serving() as running:
        sent = origin.replace("{port}", str(running.address.port))
        answer = await request(running, headers={"Origin": sent})
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


async def test_our_own_names_are_answered() -> None:
    async with serving() as running:
        for name in ("127.0.0.1", "localhost"):
            authority = f"{name}:{running.address.port}"
            headers = {"Host": authority, "Origin": f"http://{authority}"}
            assert (await request(running, headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("POST", "/mcp/..", 404),
        ("POST", "/x/%2e%2e/mcp", 404),
        ("POST", "//mcp", 404),
        ("POST", "/mcp%2f", 404),
        ("PUT", "/mcp", 405),
        ("OPTIONS", "/mcp", 405),
        ("TRACE", "/mcp", 405),
    ],
)
async def test_nothing_else_is_served(method: str, path: str, status: int) -> None:
    async with serving() as running:
        host = running.address.url.removesuffix("/mcp")
        raw = httpx2.URL(host).copy_with(raw_path=path.encode())
        assert (await request(running, method, url=raw)).status_code == status


async def test_a_body_of_a_hundred_megabytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as running:
        answer = await request(running, content=b"x" * (100 * 1024 * 1024))
        assert answer.status_code == 413

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(100):
                yield b"x" * 1024 * 1024

        try:
            streamed = await request(running, content=pieces())
            assert streamed.status_code == 413
        except (httpx2.WriteError, httpx2.ReadError):
            pass  # the connection was closed on it


async def test_a_body_that_never_ends_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "BODY_DEADLINE_S", 0.3)
    async with serving() as running:
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{running.address.port}\r\n"
            f"Authorization: {running.headers['Authorization']}\r\n"
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
            "Content-Length: 1000\r\n\r\n{"
        )
        with anyio.fail_after(60):
            async with await anyio.connect_tcp("127.0.0.1", running.address.port) as stream:
                await stream.send(head.encode())
                await _read_to_the_end(stream)


async def _read_to_the_end(stream: ByteStream) -> None:
    try:
        while True:
            await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"null", b"[]", b'{"jsonrpc":"2.0"}', b"1e999999"],
)
async def test_what_is_no_message_is_refused_and_opens_no_session(content: bytes) -> None:
    async with serving() as running:
        answer = await request(running, content=content)
        assert 400 <= answer.status_code < 500
        assert not running.sessions._sessions
        assert (await request(running)).status_code == 200, "and the server goes on"


async def test_revisions_without_sessions_are_not_spoken_and_clients_fall_back() -> None:
    async with serving() as running:
        answer = await request(running, headers={"MCP-Protocol-Version": "2026-07-28"})
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == -32022
        async with running.client(mode="auto") as client:
            assert client.protocol_version == "2025-11-25"
            assert (await client.list_tools()).tools


async def test_sessions_are_apart(workspace: Path) -> None:
    text = "long " * 60_000
    sandbox = SlowSandbox(prints=text.encode())
    sandbox.let_go.set()
    async with serving(workspaces=(workspace,), sandbox=sandbox) as running:
        async with running.client() as one, running.client() as other:
            result = await one.call_tool("Bash", {"command": "touch x"})
            link = next(block for block in result.content if block.type == "resource_link")
            assert len((await one.read_resource(link.uri)).contents[0].text) > len(text)  # type: ignore[union-attr]
            assert (await other.list_resources()).resources == []
            with pytest.raises(MCPError, match="not found"):
                await other.read_resource(link.uri)


async def test_a_session_that_is_not_there_is_not_found() -> None:
    async with serving() as running:
        body = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        for name in ("0" * 32, "../../etc", "x" * 5000):
            answer = await request(running, json=body, headers={"Mcp-Session-Id": name})
            assert answer.status_code == 404
        assert not running.sessions._sessions


async def test_the_number_of_sessions_is_limited() -> None:
    async with serving(sessions=2) as running:
        assert [(await request(running)).status_code for _ in range(3)] == [200, 200, 503]


async def test_an_ended_session_gives_back_what_it_had(workspace: Path) -> None:
    async with serving(workspaces=(workspace,)) as running:
        async with running.client() as client:
            await client.list_tools()
            assert len(running.sessions._sessions) == 1
        await until(lambda: not running.sessions._sessions, what="the session is closed")


async def test_a_client_that_vanishes_in_mid_call_ends_the_call(workspace: Path) -> None:
    sandbox = SlowSandbox()
    async with serving(workspaces=(workspace,), sandbox=sandbox) as running:
        opened = await request(running)
        headers = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await request(running, json=initialized, headers=headers)
        call = {
            "jsonrpc": "2.0",
            "id": 7,
            "method": "tools/call",
            "params": {"name": "Bash", "arguments": {"command": "touch x"}},
        }
        async with anyio.create_task_group() as tasks:

            async def calls_and_vanishes() -> None:
                await request(running, json=call, headers=headers)

            tasks.start_soon(calls_and_vanishes)
            await until(lambda: sandbox.running, what="the command runs")
            tasks.cancel_scope.cancel()
        await until(lambda: sandbox.cancelled == 1, what="the command was cancelled")
        assert sandbox.running == 0


async def test_a_hundred_parallel_calls_are_all_answered(workspace: Path) -> None:
    sandbox = SlowSandbox(prints=b"x")
    async with serving(workspaces=(workspace,), sandbox=sandbox, side_by_side=4) as running:
        async with running.client() as client:
            ended: list[bool] = []

            async def call(number: int) -> None:
                result = await client.call_tool("Bash", {"command": f"touch {number}"})
                ended.append(result.is_error)

            async with anyio.create_task_group() as tasks:
                for number in range(100):
                    tasks.start_soon(call, number)
                await until(lambda: sandbox.running == 4, what="as many run as may")
                sandbox.let_go.set()
            assert ended == [False] * 100
            assert sandbox.most == 4


async def test_beyond_its_queue_a_client_is_refused(workspace: Path) -> None:
    sandbox = SlowSandbox()
    options = {"side_by_side": 1, "waiting": 2}
    async with serving(workspaces=(workspace,), sandbox=sandbox, **options) as running:
        async with running.client() as client:
            codes: list[str] = []

            async def call() -> None:
                result = await client.call_tool("Bash", {"command": "touch x"})
                if result.is_error:
                    codes.append(result.meta["sandboxed-tools/error"]["code"])  # type: ignore[index]

            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(call)
                await until(lambda: len(codes) == 2, what="two are refused at once")
                sandbox.let_go.set()
            assert codes == ["overloaded", "overloaded"]


async def test_a_slow_reader_costs_bounded_memory_and_blocks_nobody(workspace: Path) -> None:
    """A client that never reads its stream, while the command prints for ever."""
    sandbox = FloodSandbox()
    async with serving(workspaces=(workspace,), sandbox=sandbox) as running:
        opened = await request(running)
        session = opened.headers["mcp-session-id"]
        body = json.dumps(
            {
                "jsonrpc": "2.0",
                "id": 7,
                "method": "tools/call",
                "params": {"name": "Bash", "arguments": {"command": "touch x"}},
            }
        )
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{running.address.port}\r\n"
            f"Authorization: {running.headers['Authorization']}\r\nMcp-Session-Id: {session}\r\n"
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        )
        raw = socket.create_connection(("127.0.0.1", running.address.port))
        try:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await anyio.to_thread.run_sync(raw.sendall, head.encode())
            await until(lambda: sandbox.printed > 64 * 1024 * 1024, what="64 MiB were printed")
            async with running.client() as other:
                assert (await other.list_tools()).tools
        finally:
            raw.close()
        await until(lambda: sandbox.ended, what="the call ended with its client")


class FloodSandbox(SlowSandbox):
    printed = 0
    ended = False

    async def run(self, spec: Any, command: Any, on_output: Any = None) -> Any:
        try:
            while True:
                on_output("stdout", b"x" * 65_536)
                self.printed += 65_536
                await anyio.lowlevel.checkpoint()
        finally:
            self.ended = True


def test_an_address_that_is_taken_or_foreign_is_a_plain_error() -> None:
    taken = HttpAddress.bind()
    try:
        for host, port in ((taken.host, taken.port), ("192.0.2.1", 0), ("no such host", 0)):
            with pytest.raises(ConfigurationError, match="cannot be listened on"):
                HttpAddress.bind(host, port)
    finally:
        taken.socket.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "", "0", "::", "0x0"])
def test_all_addresses_at_once_are_none_that_a_client_could_name(host: str) -> None:
    with pytest.raises(ConfigurationError, match="name the one address"):
        HttpAddress.bind(host)


def test_the_host_is_the_one_that_clients_write() -> None:
    with HttpAddress.bind("LOCALHOST").socket as bound:
        named = HttpAddress(bound, "127.0.0.1", 80, "token")
        assert named.authorities == {"127.0.0.1", "localhost"}, "no client writes :80"
        assert named.url == "http://127.0.0.1/mcp"
        six = HttpAddress(bound, "::1", 8080, "token")
        assert six.authorities == {"[::1]:8080", "localhost:8080"}
        other = HttpAddress(bound, "192.0.2.1", 8080, "token")
        assert other.authorities == {"192.0.2.1:8080"}
    loud = HttpAddress.bind("LocalHost")
    with loud.socket:
        assert loud.authorities == {f"localhost:{loud.port}"}
