"""Clients of the engine's API for many threads: one belongs to one thread at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sandboxed_tools.sandbox.docker.engine import Engine

if TYPE_CHECKING:
    import docker

__all__ = ["Clients"]

MAX_IDLE = 4


class Clients:
    """Lends clients and takes them back. A client that saw an error is not used again."""

    def __init__(self, engine: Engine, *, timeout_s: float = 60.0) -> None:
        self._engine = engine
        self._timeout_s = timeout_s
        self._idle: list[docker.APIClient] = []
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._closed = False

    @contextmanager
    def lend(self, *, timeout_s: float | None = None) -> Iterator[docker.APIClient]:
        """A client for this thread until the block ends; an own one for another ``timeout_s``."""
        api = self._idle_client() if timeout_s is None else None
        if api is None:
            api = self._engine.api(self._timeout_s if timeout_s is None else timeout_s)
        try:
            yield api
        except BaseException:
            api.close()
            raise
        if timeout_s is None and self._keep(api):
            return
        api.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for api in idle:
            api.close()

    def _idle_client(self) -> docker.APIClient | None:
        with self._lock:
            if self._pid != os.getpid():
                # After a fork the parent's connections must not be written to.
                self._idle.clear()
                self._pid = os.getpid()
            return self._idle.pop() if self._idle else None

    def _keep(self, api: docker.APIClient) -> bool:
        with self._lock:
            if self._closed or len(self._idle) >= MAX_IDLE:
                return False
            self._idle.append(api)
            return True
