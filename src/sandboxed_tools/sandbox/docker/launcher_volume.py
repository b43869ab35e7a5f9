"""The launcher for images that do not carry it: a volume, filled once, mounted read-only.

The volume is named after the launcher image's id, so a new launcher is a new volume, and filling it
twice does nothing.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from docker.errors import APIError

from sandboxed_tools.errors import ImageUnavailable
from sandboxed_tools.sandbox.docker.clients import Clients
from sandboxed_tools.sandbox.docker.create import LAUNCHER_FOLDER
from sandboxed_tools.sandbox.docker.faults import engine_faults, status_code
from sandboxed_tools.sandbox.docker.images import LAUNCHER_IMAGE, resolve_image
from sandboxed_tools.sandbox.docker.owner import Owner

if TYPE_CHECKING:
    import docker

__all__ = ["LauncherVolume"]

_log = logging.getLogger(__name__)


class LauncherVolume:
    """Finds or makes the volume; remembers it, and remembers that it cannot be had."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._lock = threading.Lock()
        self._name: str | None = None

    def name(self) -> str | None:
        """The volume's name; ``None`` when the launcher image is not on the engine. Blocking.

        Raises:
            SandboxUnavailable: the engine failed.
        """
        with self._lock:
            if self._name is None:
                try:
                    with self._clients.lend() as api, engine_faults("preparing the launcher"):
                        self._name = _filled_volume(api)
                except ImageUnavailable as error:
                    _log.info("no launcher for foreign images: %s", error)
            return self._name


def _filled_volume(api: docker.APIClient) -> str:
    image = resolve_image(api, LAUNCHER_IMAGE)
    name = f"sandboxed-tools-launcher-{image.id.removeprefix('sha256:')[:24]}"
    if _exists(api, name):
        return name
    # The engine fills an empty volume from the image when a container with it is created; the
    # container is never started. The name appears only when that is done.
    api.create_volume(name, driver="local")
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


def _exists(api: docker.APIClient, name: str) -> bool:
    try:
        api.inspect_volume(name)
    except APIError as error:
        if status_code(error) == 404:
            return False
        raise
    return True
