"""A socket in front of the engine that can be cut: for an engine that vanishes in the middle."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from sandboxed_tools.sandbox.docker.endpoints import Endpoint
from sandboxed_tools.sandbox.docker.engine import Engine, ask_engine

__all__ = ["CuttableProxy", "engine_behind"]


class CuttableProxy:
    """Passes connections on to the engine's socket, until :meth:`cut` or after ``refuse_path``.

    A request whose head contains ``fail_on`` is not passed on: its connection is closed instead,
    behind the bytes of ``answer``. One that contains ``hold_on`` gets no answer at all. Of one that
    contains ``lose_on`` the answer alone is lost, once.
    """

    def __init__(self, path: Path | None, target: str) -> None:
        """Listen at ``path``, or on a TCP port of the loopback interface."""
        self._target = target
        self._lock = threading.Lock()
        self._pairs: list[socket.socket] = []
        self._streams: list[socket.socket] = []
        self.fail_on: bytes | None = None
        self.hold_on: bytes | None = None
        self.lose_on: bytes | None = None
        self.answer = b""
        self.failures = 0
        self._is_cut = False
        self._is_frozen = threading.Event()
        if path is None:
            self._listener = socket.socket(socket.AF_INET)
            self._listener.bind(("127.0.0.1", 0))
            self.url = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(path))
            self.url = f"unix://{path}"
        self._listener.listen(64)
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def cut(self) -> None:
        """Close every connection, and refuse new ones."""
        with self._lock:
            self._is_cut = True
        self.drop()

    def drop(self) -> None:
        """Close every connection that there is now."""
        with self._lock:
            for one in self._pairs:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def cut_streams(self) -> None:
        """Close the connections to containers' streams, and nothing else."""
        with self._lock:
            for one in self._streams:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def freeze(self) -> None:
        """Pass nothing on any more, and close nothing: a network that has swallowed its peers."""
        self._is_frozen.set()

    def mend(self) -> None:
        with self._lock:
            self._is_cut = False

    def close(self) -> None:
        self.cut()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in list(self._threads):
            thread.join(10)
        for one in self._pairs:
            one.close()

    def _start(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._is_cut:
                    client.close()
                    continue
                engine = socket.socket(socket.AF_UNIX)
                engine.connect(self._target)
                self._pairs += [client, engine]
            self._start(self._pass_on, client, engine, True)
            self._start(self._pass_on, engine, client, False)

    def _pass_on(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        for data in _read(source):
            if self._is_frozen.is_set():
                continue
            if is_request and b"/attach?" in data:
                with self._lock:
                    self._streams += [source, target]
            if is_request and self.fail_on is not None and self.fail_on in data:
                self.failures += 1
                with contextlib.suppress(OSError):
                    source.sendall(self.answer)
                break
            if is_request and self.hold_on is not None and self.hold_on in data:
                self.failures += 1
                continue
            try:
                target.sendall(data)
            except OSError:
                break
            if is_request and self.lose_on is not None and self.lose_on in data:
                self.failures += 1
                self.lose_on = None
                with contextlib.suppress(OSError):
                    source.shutdown(socket.SHUT_RDWR)
                for _ in _read(source):
                    pass
                return
        else:
            if self._is_frozen.is_set():
                return
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_WR)
            return
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def _read(source: socket.socket) -> Iterator[bytes]:
    while True:
        try:
            data = source.recv(65536)
        except OSError:
            return
        if not data:
            return
        yield data


def engine_behind(proxy: CuttableProxy) -> Engine:
    """The engine as it is found through the proxy."""
    found = ask_engine(Endpoint(proxy.url, source="a test", is_explicit=True))
    assert isinstance(found, Engine)
    return found
