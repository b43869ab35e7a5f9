"""The launcher for images that do not carry it: a volume of this process, mounted read-only.

Each process fills one of its own under a random name, and names itself in the volume's labels. So a
volume that a killed process left empty is never taken for a filled one, and clean-up sees it.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

from sandboxed_tools.errors import ImageUnavailable, SandboxedToolsError
from sandboxed_tools.sandbox.docker.clients import Clients
from sandboxed_tools.sandbox.docker.create import LAUNCHER_FOLDER
from sandboxed_tools.sandbox.docker.faults import engine_faults, status_code
from sandboxed_tools.sandbox.docker.images import LAUNCHER_IMAGE, resolve_image
from sandboxed_tools.sandbox.docker.owner import LABEL_PREFIX, Owner

if TYPE_CHECKING:
    import docker

__all__ = ["LauncherVolume"]

_log = logging.getLogger(__name__)

NAME_PREFIX = "sandboxed-tools-launcher-"
NAME_LABEL = f"{LABEL_PREFIX}volume"
LIFETIME_S = 24 * 3600.0
"""For clean-up that cannot see this process; a newer volume takes its place at half of it."""

FRESH_S = 2.0
"""How old the knowledge may be that the volume is still there: its user may prune volumes."""


@dataclass(slots=True)
class _Filled:
    name: str
    made_at: float
    seen_at: float


class LauncherVolume:
    """Finds or makes this process's volume. Safe to share by threads."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._lock = threading.Lock()
        self._filled: _Filled | None = None
        self._made: list[str] = []

    def name(self) -> str | None:
        """The volume's name; ``None`` when the launcher image is not on the engine. Blocking.

        Raises:
            SandboxUnavailable: the engine failed.
        """
        with self._lock:
            now = time.monotonic()
            known = self._filled
            if known is not None and now - known.seen_at < FRESH_S:
                return known.name
            try:
                with self._clients.lend() as api, engine_faults("preparing the launcher"):
                    if known is None or not _is_usable(api, known, now=now):
                        known = _Filled(self._fill(api), now, now)
            except ImageUnavailable as error:
                _log.info("no launcher for foreign images: %s", error)
                return None
            known.seen_at = now
            self._filled = known
            return known.name

    def close(self) -> None:
        """Remove what was made; what is still in use is left to clean-up."""
        with self._lock:
            self._filled = None
            self._remove_made()

    def _remove_made(self) -> None:
        made, self._made = self._made, []
        for name in made:
            try:
                with self._clients.lend(timeout_s=15.0) as api:
                    api.remove_volume(name)
            except (DockerException, RequestException, OSError, SandboxedToolsError) as error:
                if status_code(error) != 404:
                    self._made.append(name)
                    _log.info("volume %s cannot be removed yet: %s", name, error)

    def _fill(self, api: docker.APIClient) -> str:
        image = resolve_image(api, LAUNCHER_IMAGE)
        self._remove_made()  # of an earlier filling that failed, or that became too old
        name = NAME_PREFIX + secrets.token_hex(8)
        labels = Owner.current().labels(deadline_s=LIFETIME_S, kind="helper")
        api.create_volume(name, driver="local", labels={**labels, NAME_LABEL: name})
        self._made.append(name)
        # The engine fills an empty volume from the image when a container with it is created; the
        # container is never started. The name appears only when that is done.
        container = api.create_container_from_config(  # type: ignore[no-untyped-call]
            {
                "Image": image.id,
                "Entrypoint": [f"{LAUNCHER_FOLDER}/launcher"],
                "Labels": Owner.current().labels(deadline_s=60, kind="helper"),
                "HostConfig": {
                    "NetworkMode": "none",
                    "Mounts": [{"Type": "volume", "Source": name, "Target": LAUNCHER_FOLDER}],
                },
            },
            None,
        )
        api.remove_container(container["Id"], force=True)
        return name


def _is_usable(api: docker.APIClient, known: _Filled, *, now: float) -> bool:
    """Whether the volume is still the one that was filled, and will be for a while.

    The engine makes an empty one, without labels, for a container that names one that is gone.
    """
    if now - known.made_at > LIFETIME_S / 2:
        return False
    try:
        found = api.inspect_volume(known.name)
    except APIError as error:
        if status_code(error) == 404:
            return False
        raise
    return bool((found.get("Labels") or {}).get(NAME_LABEL) == known.name)
