"""``doctor``, ``gc``, ``images`` and ``setup``: the engine, and what is ours on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import anyio
import typer
from rich.table import Table

from sandboxed_tools.cli import exit_codes, options
from sandboxed_tools.cli.console import errors_end_the_program, out, print_json, safe, stderr
from sandboxed_tools.cli.engine_api import engine_api
from sandboxed_tools.cli.ps import listed_object
from sandboxed_tools.errors import ImageUnavailable
from sandboxed_tools.host import gate_status
from sandboxed_tools.sandbox.contract import Capabilities, Capability

if TYPE_CHECKING:
    from sandboxed_tools.sandbox.docker.cleanup import Kept
    from sandboxed_tools.sandbox.docker.images import ImageState

__all__ = ["doctor", "gc", "images", "setup"]

images = typer.Typer(help="Build or list the images that calls run in.", no_args_is_help=True)

STATE_STYLES = {"enforced": "green", "weaker": "yellow", "missing": "bold red", "unknown": "dim"}


def doctor(as_json: options.Json = False) -> None:
    """Show what was found here, and which limits are really enforced, each proved by a probe.

    Ends with 1 when something that the defaults promise is missing.
    """
    with errors_end_the_program(as_json=as_json):
        found = anyio.run(_capabilities)
    items = (*found.items, _gate())
    if as_json:
        print_json({"backend": found.backend, "facts": found.facts, "items": list(items)})
    else:
        _show_capabilities(Capabilities(found.backend, found.facts, items))
    if any(item.state == "missing" for item in items):
        raise typer.Exit(exit_codes.FAILED)


async def _capabilities() -> Capabilities:
    from sandboxed_tools.runtime.default_sandbox import open_default_sandbox

    sandbox = await anyio.to_thread.run_sync(open_default_sandbox)
    try:
        with stderr().status("probing the engine"):
            return await sandbox.capabilities()
    finally:
        await sandbox.aclose()


def _gate() -> Capability:
    status = gate_status()
    return Capability(
        "host gate",
        "enforced" if status.available else "weaker",
        "; ".join(status.reasons),
        "" if status.available else "read-only commands run in the container instead",
    )


def _show_capabilities(found: Capabilities) -> None:
    facts = Table(box=None, pad_edge=False, show_header=False)
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    for name, value in found.facts.items():
        facts.add_row(safe(name, one_line=True), safe(value, one_line=True))
    out().print(facts)
    out().print()
    table = Table(box=None, pad_edge=False)
    for column in ("what", "state", "evidence"):
        table.add_column(column, overflow="fold")
    for item in found.items:
        evidence = safe(item.evidence)
        if item.advice:
            evidence = evidence + safe(f"\n→ {item.advice}", "yellow")
        table.add_row(safe(item.name), safe(item.state, STATE_STYLES[item.state]), evidence)
    out().print(table)


def gc(as_json: options.Json = False) -> None:
    """Remove what dead owners left behind; never touch what is not ours, or belongs to the living.

    Ends with 1 when something could not be removed.
    """
    from sandboxed_tools.sandbox.docker import cleanup
    from sandboxed_tools.workspace import WorkspaceViews

    with errors_end_the_program(as_json=as_json):
        with engine_api() as (_, api):
            report = cleanup.gc(api)
        views = WorkspaceViews().gc()
    if as_json:
        print_json(
            {
                "removed": [listed_object(item) for item in report.removed],
                "kept": [_kept(kept) for kept in report.kept],
                "failed": [_kept(kept) for kept in report.failed],
                "views_released": views,
            }
        )
    else:
        for item in report.removed:
            out().print(safe(f"removed {item.type} {item.name or item.id[:12]}", one_line=True))
        for kept in (*report.kept, *report.failed):
            stderr().print(safe(f"kept {kept.item.type} {kept.item.name}: {kept.reason}", "dim"))
        stderr().print(f"{len(report.removed)} removed, {views} views released.")
    if report.failed:
        raise typer.Exit(exit_codes.FAILED)


def _kept(kept: Kept) -> dict[str, str]:
    return {**listed_object(kept.item), "reason": kept.reason}


@images.command("list")
def list_images(as_json: options.Json = False) -> None:
    """List the images of this version, and whether they are ready."""
    from sandboxed_tools.sandbox.docker import images as docker_images

    with errors_end_the_program(as_json=as_json):
        with engine_api() as (_, api):
            found = docker_images.list_images(api, docker_images.EVERY_NAME)
    _show_images(found, as_json=as_json)


@images.command("build")
def build_images(
    base: Annotated[
        str | None,
        typer.Option("--from", metavar="IMAGE", help="What to build from, instead of choosing."),
    ] = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Build what is ready, too.")] = False,
    with_data: Annotated[
        bool, typer.Option("--all", help="The image with numpy, pandas and matplotlib, too.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Build what is missing: from Debian's slim image, or from Debian's packages."""
    from sandboxed_tools.sandbox.docker.image_build import build_images as build
    from sandboxed_tools.sandbox.docker.progress import open_progress
    from sandboxed_tools.sandbox.docker.python_images import build_python_images

    with errors_end_the_program(as_json=as_json):
        with engine_api() as (engine, _), open_progress() as progress:
            report = build(engine, base=base, rebuild=rebuild, progress=progress)
            python = build_python_images(engine, data=with_data, rebuild=rebuild, progress=progress)
    _show_images((*report.images, *python), as_json=as_json)


def _show_images(found: tuple[ImageState, ...], *, as_json: bool) -> None:
    if as_json:
        print_json(list(found))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("image", "tag", "state", "size", "built from"):
        table.add_column(column)
    for image in found:
        size = f"{image.size_bytes / 1_000_000:.0f} MB" if image.size_bytes else ""
        style = "green" if image.state == "ready" else "yellow"
        table.add_row(image.name, image.tag, safe(image.state, style), size, safe(image.base))
    out().print(table)


def setup(
    base: Annotated[
        str | None,
        typer.Option("--from", metavar="IMAGE", help="What to build from, instead of choosing."),
    ] = None,
) -> None:
    """Prepare this machine: an engine that answers, and the images. Does nothing twice."""
    from sandboxed_tools.sandbox.docker.engine_install import ensure_engine
    from sandboxed_tools.sandbox.docker.image_build import build_images as build
    from sandboxed_tools.sandbox.docker.progress import open_progress
    from sandboxed_tools.sandbox.docker.python_images import build_python_images

    with errors_end_the_program(as_json=False):
        with open_progress() as progress:
            engine = ensure_engine(progress=progress)
            build(engine, base=base, progress=progress)
            try:
                build_python_images(engine, progress=progress)
            except ImageUnavailable as error:
                # Commands work without it; Python tools and code say what is missing.
                stderr().print(safe(f"No image for Python tools: {error}", "yellow"))
