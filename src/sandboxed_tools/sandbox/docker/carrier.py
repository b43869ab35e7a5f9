"""Volumes for workspaces on an engine that does not share this machine's files."""

from __future__ import annotations

import contextlib
import logging
import secrets
import time

from docker.errors import DockerException
from requests.exceptions import RequestException

from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.sandbox.docker.faults import engine_faults, status_code
from sandboxed_tools.sandbox.docker.helper import HelperContainer
from sandboxed_tools.sandbox.docker.owner import Owner

__all__ = ["DockerCarrier", "DockerVolume"]

_log = logging.getLogger(__name__)

NAME_PREFIX = "sandboxed-tools-tree-"
REMOVE_DEADLINE_S = 10.0
REMOVE_TIMEOUT_S = 15.0


class DockerCarrier:
    """Implements ``tool.carrier.TreeCarrier``. Safe to share by threads, and after a fork."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def new_volume(self, *, lifetime_s: float) -> DockerVolume:
        """See ``tool.carrier.TreeCarrier``."""
        name = NAME_PREFIX + secrets.token_hex(8)
        volume = DockerVolume(self._engine, name, lifetime_s=lifetime_s)
        labels = Owner.current().labels(deadline_s=lifetime_s, kind="view")
        try:
            with (
                contextlib.closing(self._engine.api()) as api,
                engine_faults("making a volume for the workspace"),
            ):
                api.create_volume(name, driver="local", labels=labels)
        except BaseException:
            volume.close()
            raise
        return volume


class DockerVolume:
    """Implements ``tool.carrier.TreeVolume``: a volume on the engine's own disk."""

    def __init__(self, engine: Engine, name: str, *, lifetime_s: float) -> None:
        self._engine = engine
        self._lifetime_s = lifetime_s
        self._is_removed = False
        self.name = name

    def helper(self, *, writable: bool) -> HelperContainer:
        """See ``tool.carrier.TreeVolume``."""
        return HelperContainer(
            self._engine, self.name, writable=writable, lifetime_s=self._lifetime_s
        )

    def close(self) -> None:
        """See ``tool.carrier.TreeVolume``. What cannot be removed now is left to clean-up."""
        # The engine forgets a container before it lets go of its volumes.
        deadline = time.monotonic() + REMOVE_DEADLINE_S
        while not self._is_removed:
            problem = self._remove()
            if problem is None:
                self._is_removed = True
            elif time.monotonic() >= deadline:
                _log.error("volume %s could not be removed; gc will: %s", self.name, problem)
                return
            else:
                time.sleep(0.02)

    def _remove(self) -> Exception | None:
        try:
            with contextlib.closing(self._engine.api(REMOVE_TIMEOUT_S)) as api:
                api.remove_volume(self.name)
        except (DockerException, RequestException, OSError) as error:
            return None if status_code(error) == 404 else error
        return None
