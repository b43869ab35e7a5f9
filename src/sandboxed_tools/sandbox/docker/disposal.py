"""Ending and removing containers, out of the caller's way, whatever they do against it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from docker.errors import APIError
from requests.exceptions import RequestException

from sandboxed_tools.sandbox.docker.clients import Clients
from sandboxed_tools.sandbox.docker.container import Container
from sandboxed_tools.sandbox.docker.faults import status_code
from sandboxed_tools.sandbox.docker.quiet import Quiet
from sandboxed_tools.sandbox.docker.service_network import remove_service_network
from sandboxed_tools.sandbox.docker.view_volumes import remove_volume

__all__ = ["Disposal", "force_kill"]

_log = logging.getLogger(__name__)

REMOVE_DEADLINE_S = 30.0
VOLUME_DEADLINE_S = 10.0
QUIET_WAIT_S = 1.0
MAX_WAITING = 32
"""How many ended containers may stand around for the sake of a quiet moment."""

_GONE = (404,)
_ENDED = (404, 409)
_ERRORS = (APIError, RequestException, OSError)


def force_kill(clients: Clients, container_id: str) -> bool:
    """Kill through the engine; ``True`` when the processes are gone. Blocks up to half a minute.

    Under a small processor quota a container full of spinning processes does not get enough time
    to die, and the engine gives up after ten seconds; so the quota is lifted before the second try.
    """
    if _killed(clients, container_id, timeout_s=1.5):
        return True
    try:
        with clients.lend(timeout_s=5.0) as api:
            api.update_container(container_id, cpu_quota=-1)
    except _ERRORS as error:
        _log.debug("the processor quota of %s could not be lifted: %s", container_id, error)
    return _killed(clients, container_id, timeout_s=20.0)


def _killed(clients: Clients, container_id: str, *, timeout_s: float) -> bool:
    try:
        with clients.lend(timeout_s=timeout_s) as api:
            api.kill(container_id, "SIGKILL")
    except _ERRORS as error:
        return status_code(error) in _ENDED
    return True


class _Once:
    """Does ``work`` the first time it is called, whichever thread that is."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._lock = threading.Lock()

    def __call__(self) -> None:
        if self._lock.acquire(blocking=False):
            self._work()


class Disposal:
    """Removes containers on a few threads of its own; ``close`` waits until all are gone.

    What comes later, or when no thread can be started, is removed on the thread that brings it.
    """

    def __init__(self, clients: Clients, *, quiet: Quiet) -> None:
        self._clients = clients
        self._quiet = quiet
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="sandbox-disposal")
        self._lock = threading.Lock()
        self._pending: set[Future[None]] = set()
        self.failures = 0

    def dispose(
        self,
        container: Container,
        *,
        then: Callable[[], None] | None = None,
        is_urgent: bool = False,
    ) -> None:
        """Remove the container and its volumes, then run ``then``, then close its view.

        ``then`` is not run when the container cannot be removed: its processes may still live.
        Unless ``is_urgent``, a quiet moment is waited for, briefly.
        """

        def work() -> None:
            if not is_urgent:
                self._quiet.wait(
                    at_most_s=QUIET_WAIT_S, can_wait=lambda: len(self._pending) < MAX_WAITING
                )
            self._dispose(container, then)

        once = _Once(work)
        if not self.submit(once):
            try:
                once()
            except Exception as error:  # noqa: BLE001  logged with its traceback
                self._note(error)

    def submit(self, work: Callable[[], None]) -> bool:
        """Have ``work`` done soon; ``False`` when it may never be done.

        That is when this value is closed, or no thread can be started. In the second case the
        executor has queued the work all the same, and another thread may come to it.
        """
        try:
            with self._lock:
                future = self._threads.submit(work)
                self._pending.add(future)
        except RuntimeError as error:
            _log.warning("there is no thread for the clean-up of a sandbox: %s", error)
            return False
        future.add_done_callback(self._done)
        return True

    @property
    def pending(self) -> int:
        """How many removals are not done yet."""
        with self._lock:
            return len(self._pending)

    def _done(self, future: Future[None]) -> None:
        with self._lock:
            self._pending.discard(future)
        if not future.cancelled() and (error := future.exception()) is not None:
            self._note(error)

    def _note(self, error: BaseException) -> None:
        self.failures += 1
        _log.error("clean-up of a sandbox failed", exc_info=error)

    def close(self, *, timeout_s: float) -> bool:
        """Wait for everything that is pending; ``False`` when something is left after that."""
        with self._lock:
            pending = set(self._pending)
        left = wait(pending, timeout=timeout_s).not_done
        self._threads.shutdown(wait=not left)
        return not left

    def _dispose(self, container: Container, then: Callable[[], None] | None) -> None:
        # Closing the stream first: a container whose output nobody reads cannot be removed.
        container.connection.close()
        if not self.remove(container.id):
            # Its view stays too: what still runs must not lose the ground under its feet.
            self.failures += 1
            _log.error("container %s could not be removed; gc will", container.id)
            return
        try:
            network = container.network
            if network is not None and not remove_service_network(self._clients, network.name):
                self.failures += 1
                _log.error("network %s could not be removed; gc will", network.name)
            for volume in container.volumes:
                self._remove_volume(volume.name)
            if then is not None:
                then()
        finally:
            if container.view is not None:
                container.view.close()

    def _remove_volume(self, name: str) -> None:
        # The engine forgets a container before it lets go of its volumes.
        deadline = time.monotonic() + VOLUME_DEADLINE_S
        while not remove_volume(self._clients, name):
            if time.monotonic() >= deadline:
                self.failures += 1
                _log.error("volume %s could not be removed; gc will", name)
                return
            time.sleep(0.02)

    def remove(self, container_id: str) -> bool:
        """Remove with force until the engine says that it is gone; ``False`` at the deadline."""
        deadline = time.monotonic() + REMOVE_DEADLINE_S
        while True:
            try:
                with self._clients.lend() as api:
                    api.remove_container(container_id, v=True, force=True)
            except _ERRORS as error:
                code = status_code(error)
                if code in _GONE:
                    return True
                if code != 409:  # 409: it is already being removed
                    _log.debug("removing %s: %s", container_id, error)
                    force_kill(self._clients, container_id)
            else:
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
