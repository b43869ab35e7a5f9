"""Creating a container exactly once, though the answer to a request may be lost."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import tenacity
from docker.errors import APIError
from requests.exceptions import RequestException

from sandboxed_tools.errors import EngineFault
from sandboxed_tools.sandbox.docker.clients import Clients
from sandboxed_tools.sandbox.docker.faults import ODD_ANSWERS, is_transient, status_code

if TYPE_CHECKING:
    import docker

__all__ = ["create_once", "undo_create"]

_log = logging.getLogger(__name__)


def create_once(api: docker.APIClient, request: dict[str, object], name: str) -> str:
    """Create under a name of our own, so that asking again cannot make a second one."""
    for attempt in tenacity.Retrying(
        retry=tenacity.retry_if_exception(
            lambda error: is_transient(error) or isinstance(error, _StillBeingMade)
        ),
        stop=tenacity.stop_after_delay(10),
        wait=tenacity.wait_exponential_jitter(multiplier=0.05, jitter=0.05, max=1),
        reraise=True,
    ):
        with attempt:
            try:
                return _made_id(api.create_container_from_config(request, name))  # type: ignore[no-untyped-call]
            except APIError as error:
                if status_code(error) == 409 and attempt.retry_state.attempt_number > 1:
                    return _earlier(api, name)
                raise
    raise AssertionError("tenacity returns or raises")


class _StillBeingMade(EngineFault):
    """The engine holds the name for a container that it does not show yet."""


def _earlier(api: docker.APIClient, name: str) -> str:
    """The container of an earlier request whose answer was lost."""
    try:
        return _made_id(api.inspect_container(name))
    except APIError as error:
        if status_code(error) != 404:
            raise
        raise _StillBeingMade(
            "the container engine takes too long to make a container", operator_detail=str(error)
        ) from error


def _made_id(answer: object) -> str:
    try:
        return str(answer["Id"])  # type: ignore[index]
    except ODD_ANSWERS as error:
        raise EngineFault(
            "the container engine does not say what it has made", operator_detail=repr(error)
        ) from error


def undo_create(clients: Clients, name: str) -> None:
    """Remove what may or may not have been created."""
    try:
        with clients.lend(timeout_s=15.0) as api:
            api.remove_container(name, v=True, force=True)
    except (APIError, RequestException, OSError) as error:
        if status_code(error) not in (404, 409):
            _log.error("container %s could not be removed: %s", name, error)
