"""``ps``: what runs, in every process of this installation, and what of it is on the engine."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sandboxed_tools.cli import options
from sandboxed_tools.cli.console import errors_end_the_program, out, print_json, safe
from sandboxed_tools.cli.engine_api import engine_api

if TYPE_CHECKING:
    import docker

    from sandboxed_tools.sandbox.docker.cleanup import Listed
    from sandboxed_tools.sandbox.docker.status_file import OwnerStatus

__all__ = ["listed_object", "ps"]

REFRESH_S = 1.0
MAX_MEASURED = 32


@dataclass(frozen=True, slots=True)
class Use:
    """What one container uses now, and has used; as the engine counts it, from its start on."""

    memory_bytes: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look: objects on the engine, what each process says, and what containers use now."""

    items: tuple[Listed, ...]
    owners: tuple[OwnerStatus, ...]
    uses: Mapping[str, Use]


def ps(
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again every second, until Ctrl-C.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Show the pool, the queue and the running calls of every process of this installation.

    With --json: the containers, volumes and networks; with --watch as well, a line every second
    that also has the processes and what each container uses.
    """
    with errors_end_the_program(as_json=as_json):
        with engine_api() as (_, api):
            if watch:
                _watch(api, as_json=as_json)
                return
            snapshot = _look(api)
    if as_json:
        print_json([listed_object(item) for item in snapshot.items])
    else:
        out().print(_shown(snapshot))


def _look(api: docker.APIClient) -> Snapshot:
    from sandboxed_tools.sandbox.docker.cleanup import ps as list_objects
    from sandboxed_tools.sandbox.docker.status_file import read_statuses

    items = list_objects(api)
    running = [item.id for item in items if item.type == "container" and item.state == "running"]
    measured = {name: _use(api, name) for name in running[:MAX_MEASURED]}
    uses = {name: use for name, use in measured.items() if use is not None}
    return Snapshot(items, tuple(read_statuses()), uses)


def _use(api: docker.APIClient, container_id: str) -> Use | None:
    """``None`` where the engine does not say, or the container has ended."""
    from docker.errors import DockerException

    try:
        figures = api.stats(container_id, stream=False, one_shot=True)
        return Use(
            memory_bytes=int(figures["memory_stats"]["usage"]),
            cpu_s=int(figures["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9,
        )
    except (DockerException, OSError, ValueError, TypeError, KeyError):
        return None


def _watch(api: docker.APIClient, *, as_json: bool) -> None:
    if as_json:
        while True:
            snapshot = _look(api)
            print_json(
                {
                    "objects": [listed_object(item) for item in snapshot.items],
                    "processes": [_process(owner) for owner in snapshot.owners],
                    "memory_bytes": {name: u.memory_bytes for name, u in snapshot.uses.items()},
                    "cpu_s": {name: u.cpu_s for name, u in snapshot.uses.items()},
                }
            )
            time.sleep(REFRESH_S)
    with Live(console=out(), auto_refresh=False) as live:
        while True:
            live.update(_shown(_look(api)), refresh=True)
            time.sleep(REFRESH_S)


def _process(owner: OwnerStatus) -> dict[str, Any]:
    return {"pid": owner.pid, "written_at": owner.written_at, **owner.status}


def _shown(snapshot: Snapshot) -> RenderableType:
    parts: list[RenderableType] = [_process_table(snapshot)] if snapshot.owners else []
    if any(_calls(owner) for owner in snapshot.owners):
        parts.append(_call_table(snapshot))
    if snapshot.items:
        parts.append(_object_table(snapshot))
    return Group(*parts) if parts else Text("Nothing of this installation runs.", style="dim")


def _process_table(snapshot: Snapshot) -> Table:
    rows = [
        (
            owner.pid,
            owner.status.get("running", 0),
            owner.status.get("waiting", 0),
            sum(n for s in _dicts(owner, "shelves") if isinstance(n := s.get("ready"), int)),
            owner.status.get("held_back_by", ""),
        )
        for owner in snapshot.owners
    ]
    return _table(("process", "running", "waiting", "warm", "held back by"), rows)


def _call_table(snapshot: Snapshot) -> Table:
    rows = []
    for owner in snapshot.owners:
        for call in _calls(owner):
            container = str(call.get("container_id", ""))
            rows.append(
                (
                    owner.pid,
                    call.get("state", ""),
                    _age(call.get("began_at")),
                    call.get("key", ""),
                    call.get("image", ""),
                    container[:12],
                    *_used(snapshot.uses.get(container)),
                )
            )
    columns = ("process", "call", "since", "for", "image", "container", "memory", "cpu")
    return _table(columns, rows)


def _object_table(snapshot: Snapshot) -> Table:
    rows = [
        (
            item.type,
            item.id[:12],
            item.name,
            item.state,
            item.life,
            _age(item.created),
            *_used(snapshot.uses.get(item.id)),
        )
        for item in snapshot.items
    ]
    return _table(("kind", "id", "name", "state", "owner", "age", "memory", "cpu"), rows)


def _table(columns: Iterable[str], rows: Iterable[tuple[object, ...]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*(safe(str(cell), one_line=True) for cell in row))
    return table


def _calls(owner: OwnerStatus) -> list[dict[str, Any]]:
    return _dicts(owner, "calls")


def _dicts(owner: OwnerStatus, name: str) -> list[dict[str, Any]]:
    """Another version of this program may have written something else."""
    found = owner.status.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _age(moment: object) -> str:
    return f"{time.time() - moment:.0f} s" if isinstance(moment, (int, float)) else ""


def _used(use: Use | None) -> tuple[str, str]:
    if use is None:
        return "", ""
    return f"{use.memory_bytes / 1_048_576:.1f} MiB", f"{use.cpu_s:.1f} s"


def listed_object(item: Listed) -> dict[str, str]:
    """One object on the engine as JSON has it."""
    return {
        "type": item.type,
        "id": item.id,
        "name": item.name,
        "image": item.image,
        "state": item.state,
        "owner": item.life,
    }
