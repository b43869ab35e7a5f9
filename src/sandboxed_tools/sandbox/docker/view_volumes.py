"""The volumes that show a container its view of the workspace."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from docker.errors import APIError
from requests.exceptions import RequestException

from sandboxed_tools.sandbox.contract import View
from sandboxed_tools.sandbox.docker.clients import Clients
from sandboxed_tools.sandbox.docker.create import VolumeMount
from sandboxed_tools.sandbox.docker.faults import status_code

if TYPE_CHECKING:
    import docker

__all__ = ["carried_volumes", "make_view_volumes", "remove_volume"]

_log = logging.getLogger(__name__)

NAME_PREFIX = "sandboxed-tools-view-"


def make_view_volumes(
    api: docker.APIClient,
    clients: Clients,
    view: View | None,
    *,
    labels: Mapping[str, str],
    undo: ExitStack,
) -> tuple[VolumeMount, ...]:
    """A volume for each overlay of the view; ``undo`` removes them."""
    volumes = []
    for mount in view.mounts if view is not None else ():
        if mount.kind == "overlay":
            name = NAME_PREFIX + secrets.token_hex(8)
            undo.callback(remove_volume, clients, name)
            options = {"type": "overlay", "device": "overlay", "o": mount.overlay_options}
            api.create_volume(name, driver="local", driver_opts=options, labels=dict(labels))
            volumes.append(VolumeMount(name, mount.targets, mount.read_only))
    return tuple(volumes)


def carried_volumes(view: View | None) -> tuple[VolumeMount, ...]:
    """Those that hold a copy of the workspace: the view removes them, when it has read them."""
    return tuple(
        VolumeMount(mount.source, mount.targets, mount.read_only)
        for mount in (view.mounts if view is not None else ())
        if mount.kind == "volume"
    )


def remove_volume(clients: Clients, name: str) -> bool:
    """Remove a view's volume; ``False`` when it is still there."""
    try:
        with clients.lend(timeout_s=15.0) as api:
            api.remove_volume(name)
    except (APIError, RequestException, OSError) as error:
        if status_code(error) == 404:
            return True
        _log.debug("volume %s could not be removed: %s", name, error)
        return False
    return True
