"""The protocol over streamable HTTP, for programs on this machine that were given the token.

A browser's page is the attacker to think of: it can send requests to loopback addresses, by name
after DNS rebinding as well. So the Host and the Origin must be exactly ours, and the bearer token,
made at the start, must be there. Only the revisions that have sessions are spoken: a session is
what keeps the callers' workspaces, results and change sets apart.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import logging
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import anyio
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.mcp.calls import GONE
from sandboxed_tools.mcp.sessions import SESSION_HEADER, Sessions

__all__ = ["PATH", "Guard", "HttpAddress", "serve_http"]

log = logging.getLogger("sandboxed_tools.mcp")

PATH: Final = "/mcp"
MAX_BODY_BYTES: Final = 32 * 1024 * 1024
BODY_DEADLINE_S: Final = 60.0
MAX_CONNECTIONS: Final = 512
_SHUTDOWN_S: Final = 3


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """Where to listen, and the secret to be shown by whoever calls."""

    socket: socket.socket
    host: str
    port: int
    token: str

    @classmethod
    def bind(cls, host: str = "127.0.0.1", port: int = 0) -> HttpAddress:
        """Listen on an address of this machine, on a free port when it is 0; make a token.

        Raises:
            ConfigurationError: the address is none of this machine's, taken, or all of them.
        """
        host = _as_clients_write_it(host)
        is_ipv6 = ":" in host
        bound = socket.socket(socket.AF_INET6 if is_ipv6 else socket.AF_INET, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Connections inherit it. An answer goes out in pieces, and without it the second piece
            # waits for the client's delayed acknowledgement of the first: 40 ms a request, tcp(7).
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            bound.bind((host, port))
            bound.listen(128)
            if ipaddress.ip_address(bound.getsockname()[0]).is_unspecified:
                raise OSError("name the one address that clients call: Host has to be exactly it")
        except (OSError, OverflowError) as error:
            bound.close()
            raise ConfigurationError(f"{host}:{port} cannot be listened on: {error}") from error
        return cls(bound, host, bound.getsockname()[1], secrets.token_urlsafe(32))

    @property
    def url(self) -> str:
        return f"http://{self._authority(self.host)}{PATH}"

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def authorities(self) -> frozenset[str]:
        """What ``Host`` may be, exactly."""
        names = {self.host, "localhost"} if self.is_loopback else {self.host}
        return frozenset(self._authority(name) for name in names)

    def _authority(self, name: str) -> str:
        """With the port, which clients leave out where it is the protocol's own (RFC 9110, 7.2)."""
        bare = f"[{name}]" if ":" in name else name
        return bare if self.port == 80 else f"{bare}:{self.port}"


def _as_clients_write_it(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower()


async def serve_http(
    server: Server[Any],
    sessions: Sessions,
    address: HttpAddress,
    *,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until a signal ends it, or it is cancelled; running calls end with it."""
    # Imported here: a server on standard input and output starts sooner without it.
    from sandboxed_tools.mcp.http_connection import PromptProtocol

    manager = StreamableHTTPSessionManager(
        server,
        session_idle_timeout=sessions.options.idle_s,
        max_sessions=sessions.options.sessions,
        max_request_body_size=MAX_BODY_BYTES,
    )
    config = uvicorn.Config(
        Guard(manager.asgi_app, sessions, address),
        http=PromptProtocol,
        # uvicorn would take an upgrade from anybody, and count it as a connection no more.
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_SHUTDOWN_S,
    )
    listener = uvicorn.Server(config)
    with address.socket:
        async with manager.run(), anyio.create_task_group() as tasks:
            tasks.start_soon(sessions.close_idle_ones)
            on_ready()
            try:
                await listener.serve(sockets=[address.socket])
            except anyio.get_cancelled_exc_class():
                # A cancelled listener would leave its connections open.
                listener.force_exit = True
                with anyio.CancelScope(shield=True), anyio.move_on_after(_SHUTDOWN_S):
                    await listener.shutdown(sockets=[address.socket])
                raise
            finally:
                tasks.cancel_scope.cancel()


class Guard:
    """An ASGI application before another one: lets nothing pass that is not to be answered."""

    def __init__(self, app: ASGIApp, sessions: Sessions, address: HttpAddress) -> None:
        self._app = app
        self._sessions = sessions
        self._hosts = address.authorities
        self._origins = frozenset(f"http://{host}" for host in self._hosts)
        self._token = _digest(address.token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        watched = _Watched(receive, send)
        scope[GONE] = watched.gone
        await self._app(scope, watched.receive, watched.send)
        if scope["method"] == "DELETE" and watched.status is not None and watched.status < 300:
            await self._sessions.close(headers.get(SESSION_HEADER, ""))

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return Response("Misdirected request", status_code=421)
        if origins and (len(origins) != 1 or origins[0] not in self._origins):
            return Response("Forbidden origin", status_code=403)
        if not self._is_authorized(headers):
            return Response("Unauthorized", status_code=401, headers={"WWW-Authenticate": "Bearer"})
        if scope["path"] != PATH:
            return Response("Not found", status_code=404)
        if scope["method"] not in ("GET", "POST", "DELETE"):
            return Response("", status_code=405, headers={"Allow": "GET, POST, DELETE"})
        versions = headers.getlist("mcp-protocol-version")
        if any(version not in HANDSHAKE_PROTOCOL_VERSIONS for version in versions):
            return _unsupported(versions[0])
        return None

    def _is_authorized(self, headers: Headers) -> bool:
        given = headers.getlist("authorization")
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        # Digests, so that neither the length nor a common beginning shows in the time it takes.
        is_right = hmac.compare_digest(_digest(token.strip()), self._token)
        return is_right and scheme.lower() == "bearer"


class _Watched:
    """The two ways of one request: a body has its deadline, and a client that goes is noticed."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._has_body = False
        self._deadline_s = anyio.current_time() + BODY_DEADLINE_S
        self.gone = anyio.Event()
        self.status: int | None = None

    async def receive(self) -> Message:
        if self._has_body:
            message = await self._receive()
        else:
            message = {"type": "http.disconnect"}
            left_s = self._deadline_s - anyio.current_time()
            with anyio.move_on_after(max(0.0, left_s)):
                message = await self._receive()
        if message["type"] == "http.request":
            self._has_body = not message.get("more_body", False)
        elif message["type"] == "http.disconnect":
            self.gone.set()
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _unsupported(version: str) -> Response:
    error = {
        "code": UNSUPPORTED_PROTOCOL_VERSION,
        "message": "Unsupported protocol version",
        "data": {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": version[:64]},
    }
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    return Response(json.dumps(body), status_code=400, media_type="application/json")
