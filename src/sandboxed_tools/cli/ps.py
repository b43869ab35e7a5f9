"""``ps``: what runs, in every process of this installation, and what of it is on the engine."""

from __future__ import annotations

import time
from collections.abc import Mapping
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
class Snapshot:
    """One look: objects on the engine, what each process says, and what containers use now."""

    items: tuple[Listed, ...]
    owners: tuple[OwnerStatus, ...]
    memory_bytes: Mapping[str, int]


def ps(
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again every second, until Ctrl-C.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Show the pool, the queue and the running calls of every process of this installation.

    With --json: the containers, volumes and networks; with --watch as well, a line every second
    that also has the processes.
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
    measured = {name: _memory(api, name) for name in running[:MAX_MEASURED]}
    used = {name: size for name, size in measured.items() if size is not None}
    return Snapshot(items, tuple(read_statuses()), used)


def _memory(api: docker.APIClient, container_id: str) -> int | None:
    """Bytes in use now; ``None`` where the engine does not say, or the container has ended."""
    from docker.errors import DockerException

    try:
        figures = api.stats(container_id, stream=False, one_shot=True)
        return int(figures["memory_stats"]["usage"])
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
                    "memory_bytes": dict(snapshot.memory_bytes),
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
    if snapshot.items:
        parts.append(_object_table(snapshot))
    return Group(*parts) if parts else Text("Nothing of this installation runs.", style="dim")


def _process_table(snapshot: Snapshot) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("process", "running", "waiting", "warm", "held back by"):
        table.add_column(column)
    for owner in snapshot.owners:
        status = owner.status
        warm = sum(shelf.get("ready", 0) for shelf in status.get("shelves", ()))
        cells = (
            owner.pid,
            status.get("running", 0),
            status.get("waiting", 0),
            warm,
            status.get("held_back_by", ""),
        )
        table.add_row(*(safe(str(cell), one_line=True) for cell in cells))
    return table


def _object_table(snapshot: Snapshot) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("kind", "id", "name", "state", "owner", "age", "memory"):
        table.add_column(column)
    for item in snapshot.items:
        age = "" if item.created is None else f"{time.time() - item.created:.0f} s"
        used = snapshot.memory_bytes.get(item.id)
        memory = "" if used is None else f"{used / 1_048_576:.1f} MiB"
        cells = (item.type, item.id[:12], item.name, item.state, item.life, age, memory)
        table.add_row(*(safe(str(cell), one_line=True) for cell in cells))
    return table


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
