"""Looking for what dead owners left: when a program begins to make calls, and now and then."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from sandboxed_tools.errors import SandboxedToolsError
from sandboxed_tools.sandbox.docker.cleanup import gc
from sandboxed_tools.sandbox.docker.clients import Clients
from sandboxed_tools.sandbox.docker.threads import started_thread
from sandboxed_tools.tool.state import state_dir

if TYPE_CHECKING:
    from sandboxed_tools.sandbox.contract import ViewProvider

__all__ = ["Rounds"]

_log = logging.getLogger(__name__)

PERIOD_S = 300.0
CLOSE_WAIT_S = 2.0
STAMP = "looked-through"


class Rounds:
    """Each round is on a thread of its own: a container that blocks its removal holds up no call,
    and nothing that is made ahead. Safe to share by threads.
    """

    def __init__(self, clients: Clients, views: ViewProvider | None) -> None:
        self._clients = clients
        self._views = views
        self._lock = threading.Lock()
        self._next_at = 0.0
        self._thread: threading.Thread | None = None

    def begin_when_due(self) -> None:
        """Begin a round if none runs and the last one was ``PERIOD_S`` ago. Does not wait."""
        if time.monotonic() < self._next_at:
            return
        with self._lock:
            now = time.monotonic()
            if now < self._next_at or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = started_thread(
                self._run,
                name="sandbox-rounds",
                log=_log,
                without="what dead owners left was not looked for",
            )
            if self._thread is not None:
                self._next_at = now + PERIOD_S

    def close(self) -> None:
        """Wait for a round that runs, a while; what it does not reach is for the next program."""
        with self._lock:
            self._next_at = float("inf")
            thread = self._thread
        if thread is not None:
            thread.join(CLOSE_WAIT_S)

    def _run(self) -> None:
        try:
            with self._clients.lend() as api:
                report = gc(api)
            for kept in report.failed:
                _log.warning("%s could not be removed: %s", kept.item, kept.reason)
            if self._views is not None and _is_due():
                self._views.gc()
        except SandboxedToolsError as error:
            _log.warning("what dead owners left was not looked for: %s", error)
        except Exception:  # noqa: BLE001  logged with its traceback
            _log.exception("what dead owners left was not looked for")


def _is_due() -> bool:
    """Whether no process has looked through the views lately: that reads every change set, which is
    too much for each of many short programs."""
    stamp = state_dir() / STAMP
    try:
        age_s = time.time() - stamp.stat().st_mtime
    except FileNotFoundError:
        age_s = PERIOD_S
    if 0 <= age_s < PERIOD_S / 2:
        return False
    stamp.touch(mode=0o600)
    return True
