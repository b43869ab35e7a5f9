"""How the engine saw a container end, when the launcher could not tell it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from docker.errors import APIError
from requests.exceptions import RequestException

from sandboxed_tools.sandbox.docker.clients import Clients
from sandboxed_tools.sandbox.docker.faults import ODD_ANSWERS, status_code
from sandboxed_tools.sandbox.docker.outcome import EngineState

if TYPE_CHECKING:
    import docker

__all__ = ["engine_state"]

_log = logging.getLogger(__name__)

TIMEOUT_S = 3.0
OOM_EVENT_DELAY_S = 0.4
MARGIN_S = 5.0
_KINDS = ("die", "kill", "oom")


def engine_state(clients: Clients, container_id: str, *, within_s: float) -> EngineState | None:
    """How the container ended, within the last ``within_s`` seconds; ``None``: nobody can say.

    A container that removes itself is gone by then, so its events are asked too: they stay for a
    while. The event for memory may come up to a third of a second after the one for the end.
    """
    try:
        with clients.lend(timeout_s=TIMEOUT_S) as api:
            state = _inspected(api, container_id)
            if state is not None and state.get("Running"):
                return EngineState(running=True, exit_code=None, oom_killed=False)
            events = _events(api, container_id, within_s=within_s)
            state = _inspected(api, container_id) or state or {}
            return _judged(state, events)
    except (APIError, RequestException, OSError, *ODD_ANSWERS) as error:
        _log.debug("the engine cannot say how %s ended: %s", container_id, error)
        return None


def _inspected(api: docker.APIClient, container_id: str) -> dict[str, Any] | None:
    try:
        return dict(api.inspect_container(container_id)["State"])
    except APIError as error:
        if status_code(error) == 404:
            return None
        raise


def _events(
    api: docker.APIClient, container_id: str, *, within_s: float
) -> list[Mapping[str, Any]]:
    # By the engine's clock: ours may be another, or may have been set in the meantime.
    now = datetime.fromisoformat(api.info()["SystemTime"]).timestamp()
    return list(
        api.events(  # type: ignore[call-overload]  # the API takes fractions
            since=now - within_s - MARGIN_S,
            until=now + OOM_EVENT_DELAY_S,
            filters={"container": [container_id], "event": list(_KINDS)},
            decode=True,
        )
    )


def _judged(state: Mapping[str, Any], events: Iterable[Mapping[str, Any]]) -> EngineState:
    exit_code = state.get("ExitCode")
    oom_killed = bool(state.get("OOMKilled"))
    was_killed = False
    for event in events:
        if event.get("status") == "oom":
            oom_killed = True
        elif event.get("status") == "kill":
            was_killed = True
        elif exit_code is None:
            exit_code = int(event["Actor"]["Attributes"].get("exitCode", "137"))
    return EngineState(
        running=False, exit_code=exit_code, oom_killed=oom_killed, was_killed=was_killed
    )
