"""Requests to an engine behind SSH.

docker-py's own way needs paramiko even where it starts the system's ``ssh``, keeps no deadline
(``transport/sshconn.py`` reads from a pipe and ignores timeouts), and leaves its processes running.
"""

from __future__ import annotations

import subprocess
import threading
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter

from sandboxed_tools.sandbox.docker.ssh_stream import open_ssh_stream

__all__ = ["SshAdapter"]

END_WAIT_S = 5.0


class SshAdapter(HTTPAdapter):
    """Carries a session's requests through ``ssh``; closing it ends every process of it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._pool = _Pool(self)
        super().__init__()

    def open(self, connection: urllib3.connection.HTTPConnection, *, timeout_s: float) -> None:
        """Connect ``connection``."""
        stream, process = open_ssh_stream(self._url, timeout_s=timeout_s)
        connection.sock = stream
        with self._lock:
            self._processes = [one for one in self._processes if one.poll() is None]
            self._processes.append(process)

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> Any:
        """The one pool, whatever proxies the environment names: they lead somewhere else."""
        return self._pool

    def get_connection(self, *_: Any, **__: Any) -> Any:
        """For older versions of requests."""
        return self._pool

    def request_url(self, request: requests.PreparedRequest, proxies: Any) -> str:
        return str(request.path_url)

    def close(self) -> None:
        self._pool.close()
        super().close()
        with self._lock:
            processes, self._processes = self._processes, []
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(END_WAIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class _Pool(urllib3.HTTPConnectionPool):
    def __init__(self, adapter: SshAdapter) -> None:
        super().__init__("engine", maxsize=4)
        self._adapter = adapter

    def _new_conn(self) -> _Connection:
        self.num_connections += 1
        return _Connection(self._adapter)


class _Connection(urllib3.connection.HTTPConnection):
    def __init__(self, adapter: SshAdapter) -> None:
        super().__init__("engine")
        self._adapter = adapter

    def connect(self) -> None:
        timeout_s = self.timeout if isinstance(self.timeout, (int, float)) else 60.0
        self._adapter.open(self, timeout_s=timeout_s)
