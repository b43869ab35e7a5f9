"""``conformance``: what the sandbox of this machine really does, claim by claim."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import anyio
import anyio.to_thread
import typer
from rich.table import Table

from sandboxed_tools.cli import exit_codes, options
from sandboxed_tools.cli.console import errors_end_the_program, out, print_json, safe, stderr
from sandboxed_tools.errors import ConfigurationError

if TYPE_CHECKING:
    from sandboxed_tools.testing.conformance import Check, CheckResult, Difference, Report

__all__ = ["conformance"]

STYLES = {
    "passed": "green",
    "known_difference": "yellow",
    "stale_difference": "bold red",
    "failed": "bold red",
}


def conformance(
    prefixes: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Only checks whose id begins so.")
    ] = None,
    runtime: options.Runtime = None,
    image: Annotated[
        str, typer.Option("--image", help="With bash, coreutils, procps and python3.")
    ] = "sandboxed-tools/base",
    at_once: Annotated[
        int, typer.Option("--at-once", min=1, max=32, help="Checks at the same time.")
    ] = 4,
    patience: Annotated[
        float,
        typer.Option("--patience", min=1, max=100, help="How many times longer all may take."),
    ] = 1.0,
    only_list: Annotated[
        bool, typer.Option("--list", help="List the checks and their claims; run none.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Check what this sandbox really does, claim by claim.

    Differences that are known of a runtime are listed with their reasons. Ends with 1 when a check
    failed, or when a known difference is none any more.
    """
    from sandboxed_tools.testing.conformance.differences import known_differences

    with errors_end_the_program(as_json=as_json):
        checks = _chosen(prefixes or [])
    if only_list:
        _show_claims(checks, as_json=as_json)
        return
    ids = {check.id for check in checks}
    known = {name: why for name, why in known_differences(runtime).items() if name in ids}
    with errors_end_the_program(as_json=as_json):
        report = anyio.run(_run, ids, image, runtime, known, at_once, patience)
    if as_json:
        print_json({"runtime": runtime, "image": image, **report.to_json()})
    else:
        _show(report)
    if not report.ok:
        raise typer.Exit(exit_codes.FAILED)


def _chosen(prefixes: list[str]) -> list[Check]:
    from sandboxed_tools.testing.conformance import ALL_CHECKS

    chosen = [check for check in ALL_CHECKS if check.id.startswith(tuple(prefixes or ("",)))]
    if not chosen:
        raise ConfigurationError("No check has such an id; --list shows them.")
    return chosen


async def _run(
    ids: set[str],
    image: str,
    runtime: str | None,
    known: dict[str, Difference],
    at_once: int,
    patience: float,
) -> Report:
    from sandboxed_tools.runtime.default_sandbox import open_default_sandbox
    from sandboxed_tools.sandbox.contract import SandboxSpec
    from sandboxed_tools.testing.conformance import run_conformance
    from sandboxed_tools.tool import Command

    sandbox = await anyio.to_thread.run_sync(open_default_sandbox)
    done = 0
    try:
        # No such runtime, no such image: said once, and not as the failure of every check.
        await sandbox.run(SandboxSpec(image, runtime=runtime), Command(("true",)))
        with stderr().status(f"0 of {len(ids)} checks") as status:

            def told(_: CheckResult) -> None:
                nonlocal done
                done += 1
                status.update(f"{done} of {len(ids)} checks")

            return await run_conformance(
                sandbox,
                image=image,
                runtime=runtime,
                known_differences=known,
                only=ids,
                at_once=at_once,
                patience=patience,
                on_result=told,
            )
    finally:
        with anyio.CancelScope(shield=True):
            await sandbox.aclose()


def _show(report: Report) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("check", "outcome", "seconds", "claim"):
        table.add_column(
            column, overflow="fold", justify="right" if column == "seconds" else "left"
        )
    for result in report.results:
        words = result.outcome.replace("_", " ")
        claim = safe(result.claim)
        if result.detail:
            claim = claim + safe(f"\n→ {result.detail[:500]}", STYLES[result.outcome])
        table.add_row(
            safe(result.id), safe(words, STYLES[result.outcome]), f"{result.seconds:.1f}", claim
        )
    out().print(table)
    counts = Counter(result.outcome for result in report.results)
    rest = [f"{n} {name.replace('_', ' ')}" for name, n in counts.items() if name != "passed"]
    summary = f"{counts['passed']} of {len(report.results)} checks held"
    out().print(safe("; ".join([summary, *rest]), "bold"))


def _show_claims(checks: list[Check], *, as_json: bool) -> None:
    if as_json:
        print_json([{"id": check.id, "claim": check.claim} for check in checks])
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        table.add_row(safe(check.id), safe(check.claim))
    out().print(table)
