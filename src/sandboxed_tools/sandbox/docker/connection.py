"""The attach stream of one container: a raw connection that the engine upgrades.

It is opened before the container is started, or the engine loses the beginning of the output and
sometimes all of it. It is also the container's lease: the engine closes the container's standard
input when this connection is gone, and the launcher then ends everything. So a forked child must
not keep a copy open.

The request is written here rather than through docker-py, whose way to the socket goes through
private attributes of three libraries and cannot be polled over SSH.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import subprocess
import weakref
from urllib.parse import urlsplit

from sandboxed_tools.errors import EngineFault
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.sandbox.docker.ssh_stream import open_ssh_stream

__all__ = ["Connection", "attach"]

_MAX_HEAD_BYTES = 16 * 1024
_open: weakref.WeakSet[Connection] = weakref.WeakSet()


class Connection:
    """A connected, upgraded, non-blocking stream; one thread at a time.

    ``receive_into`` and ``send`` return ``None`` when they would block, and ``receive_into``
    returns 0 at the end. Both raise ``OSError`` when the connection is lost.
    """

    def __init__(self, stream: socket.socket, *, process: subprocess.Popen[bytes] | None) -> None:
        self._socket = stream
        self._process = process
        _open.add(self)

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive_into(self, room: memoryview) -> int | None:
        try:
            return self._socket.recv_into(room)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None

    def has_buffered(self) -> bool:
        """Whether TLS holds decrypted bytes that polling the descriptor does not show."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def send(self, data: memoryview) -> int | None:
        try:
            return self._socket.send(data)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None

    def wait_for_room(self, *, timeout_s: float) -> None:
        """Wait until something can be sent, at most ``timeout_s``."""
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLOUT)
        poll.poll(timeout_s * 1000)

    def is_alive(self) -> bool:
        """Whether the other side still holds the connection and has said nothing yet."""
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN)
        return not poll.poll(0) and not self.has_buffered()

    def close(self) -> None:
        """Give the lease back; safe to call more than once."""
        _open.discard(self)
        with contextlib.suppress(OSError):
            self._socket.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def forget(self) -> None:
        """In a forked child: close this process's copy and tell nobody."""
        with contextlib.suppress(OSError):
            os.close(self._socket.detach())


def _forget_all() -> None:
    for connection in list(_open):
        connection.forget()
    _open.clear()


os.register_at_fork(after_in_child=_forget_all)


def attach(engine: Engine, container_id: str, *, timeout_s: float) -> Connection:
    """Attach to all three streams of a container that is not started yet.

    Raises:
        EngineFault: the engine refuses, or cannot be reached within ``timeout_s``.
    """
    try:
        stream, process = _open_stream(engine, timeout_s=timeout_s)
    except OSError as error:
        raise EngineFault(
            "the container engine cannot be reached", operator_detail=str(error)
        ) from error
    connection = Connection(stream, process=process)
    try:
        stream.sendall(
            f"POST /v{engine.api_version}/containers/{container_id}/attach"
            "?stream=1&stdin=1&stdout=1&stderr=1 HTTP/1.1\r\n"
            "Host: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
            "Content-Length: 0\r\n\r\n".encode("ascii")
        )
        _expect_upgrade(stream)
        stream.setblocking(False)
    except OSError as error:
        connection.close()
        raise EngineFault(
            "the container engine went away while attaching", operator_detail=str(error)
        ) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _expect_upgrade(stream: socket.socket) -> None:
    head = b""
    # A byte at a time: nothing behind the head may be read here.
    while not head.endswith(b"\r\n\r\n"):
        byte = stream.recv(1)
        if not byte or len(head) > _MAX_HEAD_BYTES:
            raise EngineFault(
                "the container engine gave no answer to attach",
                operator_detail=head.decode("latin-1"),
            )
        head += byte
    status = head.split(b" ", 2)[1:2]
    if status not in ([b"101"], [b"200"]):
        raise EngineFault(
            "the container engine refused to attach", operator_detail=head.decode("latin-1")
        )


def _open_stream(
    engine: Engine, *, timeout_s: float
) -> tuple[socket.socket, subprocess.Popen[bytes] | None]:
    path = engine.endpoint.socket_path
    if path is not None:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            stream.settimeout(timeout_s)
            stream.connect(path)
        except BaseException:
            stream.close()
            raise
        return stream, None
    address = urlsplit(engine.base_url)
    if address.scheme == "ssh":
        return open_ssh_stream(engine.base_url, timeout_s=timeout_s)
    stream = socket.create_connection(
        (address.hostname or "localhost", address.port or 2375), timeout=timeout_s
    )
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if engine.endpoint.tls is None:
        return stream, None
    files = engine.endpoint.tls
    try:
        context = ssl.create_default_context(cafile=files.ca)
        if not files.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if files.cert and files.key:
            context.load_cert_chain(files.cert, files.key)
        return context.wrap_socket(stream, server_hostname=address.hostname), None
    except BaseException:
        stream.close()
        raise
