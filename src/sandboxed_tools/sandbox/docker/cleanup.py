"""Removing what dead owners left on the engine, and listing what is there.

An object is removed when its labels prove that this installation made it *and* its owner is dead,
or when its deadline is over and its owner cannot be found alive. Names prove nothing. A container
copies the labels of its image, so labels alone do not prove either that a container is ours: one
made from a commit of an old container carries that container's labels, and is told apart by the
time at which the engine made it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from docker.errors import DockerException, NotFound
from requests.exceptions import RequestException

from sandboxed_tools.errors import EngineFault
from sandboxed_tools.sandbox.docker.owner import LABEL_PREFIX, Life, Owner, Ownership
from sandboxed_tools.sandbox.docker.service_network import empty_network

if TYPE_CHECKING:
    import docker

__all__ = ["GcReport", "Kept", "Listed", "Verdict", "gc", "judge", "ps"]

ObjectType = Literal["container", "volume", "network"]

DEADLINE_GRACE_S = 60.0
# Between the client's clock, which writes the label, and the engine's, which notes the creation.
CREATION_SKEW_S = 300.0
ITEM_TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True)
class Listed:
    """One object on the engine that carries this installation's label.

    ``ownership`` is ``None`` when its labels are not whole; ``created`` is the engine's own Unix
    time, ``None`` where it does not say; ``life`` is the owner's as seen by this process.
    """

    type: ObjectType
    id: str
    name: str
    image: str
    state: str
    created: float | None
    ownership: Ownership | None
    life: Life


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an object is to be removed, and why or why not."""

    remove: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Kept:
    """An object that is still there, and why."""

    item: Listed
    reason: str


@dataclass(frozen=True, slots=True)
class GcReport:
    """What a clean-up removed, what it left alone, and what it could not remove."""

    removed: tuple[Listed, ...]
    kept: tuple[Kept, ...]
    failed: tuple[Kept, ...]


def gc(
    api: docker.APIClient,
    *,
    now: float | None = None,
    item_timeout_s: float = ITEM_TIMEOUT_S,
) -> GcReport:
    """Remove what is provably ours and dead, or past its deadline. Safe to run at any time.

    Blocks for at most about four times ``item_timeout_s`` for each object: a container whose
    output nobody reads can block its own removal for ever.

    Raises:
        EngineFault: the engine cannot list what it has. A removal that fails is in the report.
        ConfigurationError: the state folder, and so the installation id, cannot be used.
    """
    moment = time.time() if now is None else now
    removed: list[Listed] = []
    kept: list[Kept] = []
    failed: list[Kept] = []
    for item in ps(api):
        verdict = judge(item, now=moment)
        if not verdict.remove:
            kept.append(Kept(item, verdict.reason))
            continue
        problem = _remove(api, item, timeout_s=item_timeout_s)
        if problem is None:
            removed.append(item)
        else:
            failed.append(Kept(item, problem))
    return GcReport(tuple(removed), tuple(kept), tuple(failed))


def judge(item: Listed, *, now: float) -> Verdict:
    """Decide about one object. Pure; whatever is not proved is kept."""
    ownership = item.ownership
    if ownership is None:
        return Verdict(False, "its labels are not whole, so nothing is known about it")
    # Only containers inherit labels. For a volume the engine gives the time at which its folder was
    # last written to, which what runs inside can choose.
    if item.type == "container":
        if item.created is None:
            return Verdict(False, "the engine does not say when it was made")
        if abs(item.created - ownership.created) > CREATION_SKEW_S:
            return Verdict(False, "it was not made when its labels say: a copy, or a wrong clock")
    if item.life == "alive":
        return Verdict(False, f"its owner, process {ownership.owner.pid}, is alive")
    if item.life == "dead":
        return Verdict(True, "its owner is dead")
    if now > ownership.deadline + DEADLINE_GRACE_S:
        return Verdict(True, "its deadline is over")
    return Verdict(False, "its owner cannot be seen from here, and its deadline is not over")


def ps(api: docker.APIClient) -> tuple[Listed, ...]:
    """Everything on the engine with this installation's label: containers, volumes, networks.

    Takes no container's lock, so a wedged container cannot hang it.

    Raises:
        EngineFault: the engine did not answer.
        ConfigurationError: the state folder cannot be used.
    """
    me = Owner.current()
    mine = {"label": f"{LABEL_PREFIX}installation={me.installation}"}
    try:
        containers = api.containers(all=True, filters=mine)
        volumes = api.volumes(filters=mine)["Volumes"] or []
        networks = api.networks(filters=mine)
    except (DockerException, RequestException, OSError, KeyError, ValueError) as error:
        raise EngineFault(
            "the engine cannot list what it has: see 'sandboxed-tools doctor'",
            operator_detail=str(error),
        ) from error
    # Volumes and networks can go only after the containers that use them.
    return (
        *_listed(containers, "container", me),
        *_listed(volumes, "volume", me),
        *_listed(networks, "network", me),
    )


def _listed(found: list[Mapping[str, Any]], type_: ObjectType, me: Owner) -> Iterator[Listed]:
    for entry in found:
        labels = entry.get("Labels") or {}
        ownership = Ownership.from_labels(labels)
        if labels.get(f"{LABEL_PREFIX}installation") != me.installation:
            continue
        names = entry.get("Names") or [entry.get("Name", "")]
        yield Listed(
            type=type_,
            id=str(entry.get("Id") or entry.get("Name")),
            name=str(names[0]).lstrip("/"),
            image=str(entry.get("Image", "")),
            state=str(entry.get("State", "")),
            created=_created(entry),
            ownership=ownership,
            life=ownership.owner.life(seen_from=me) if ownership else "unknown",
        )


def _created(entry: Mapping[str, Any]) -> float | None:
    """Unix seconds: containers have a number, volumes ``CreatedAt``, networks RFC 3339 text."""
    value = entry.get("CreatedAt") or entry.get("Created")
    if isinstance(value, (int, float)):
        return float(value)
    try:
        # Nanoseconds are more than fromisoformat takes.
        head, dot, rest = str(value).partition(".")
        zone = rest.lstrip("0123456789") if dot else ""
        moment = datetime.fromisoformat(head + zone if dot else head)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None


def _remove(api: docker.APIClient, item: Listed, *, timeout_s: float) -> str | None:
    """Remove one object; ``None`` when it is gone or going, else what went wrong."""
    if item.type == "network":
        return _remove_network(api, item, timeout_s=timeout_s)
    if item.type != "container":
        return _request(api, "delete", f"/{item.type}s/{item.id}", timeout_s=timeout_s)
    path = f"/containers/{item.id}"
    force = {"force": "1", "v": "1"}
    problem = _request(api, "delete", path, params=force, timeout_s=timeout_s)
    if problem is None:
        return None
    # Under a tiny CPU quota the processes never get far enough to die: lift it, and kill again.
    _request(api, "post", f"{path}/update", body={"CpuQuota": -1}, timeout_s=timeout_s)
    _request(api, "post", f"{path}/kill", timeout_s=timeout_s)
    return _request(api, "delete", path, params=force, timeout_s=timeout_s)


def _remove_network(api: docker.APIClient, item: Listed, *, timeout_s: float) -> str | None:
    """Services that a dead call had joined are still on its network: take them off first."""
    try:
        empty_network(api, item.id)
    except NotFound:
        return None
    except (DockerException, RequestException, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return _request(api, "delete", f"/networks/{item.id}", timeout_s=timeout_s)


def _request(
    api: docker.APIClient,
    method: Literal["delete", "post"],
    path: str,
    *,
    timeout_s: float,
    params: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
) -> str | None:
    """One request with its own deadline, which docker-py's methods do not have."""
    try:
        response = api.request(
            method,
            f"{api.base_url}/v{api.api_version}{path}",
            params=params,
            json=body,
            timeout=timeout_s,
        )
    except (RequestException, OSError) as error:
        return f"{type(error).__name__}: {error}"
    if response.status_code < 400 or response.status_code == 404:
        return None
    text = response.text[:500]
    # Somebody else is removing it at this moment, auto-remove for example.
    return None if response.status_code == 409 and "in progress" in text else text
