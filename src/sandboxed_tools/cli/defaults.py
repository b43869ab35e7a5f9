"""``defaults``: what the versions of the defaults supply, and what a change of version means."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.table import Table

from sandboxed_tools.builtin import SHIPPED
from sandboxed_tools.cli import exit_codes, options
from sandboxed_tools.cli.console import errors_end_the_program, out, print_json, safe, stderr
from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.policy.defaults_review import (
    Change,
    Snapshot,
    diff_defaults,
    diff_snapshots,
    snapshot_of,
)
from sandboxed_tools.tool import AnyTool, Tool
from sandboxed_tools.tool.defaults import DEFAULTS

__all__ = ["app"]

app = typer.Typer(help="Show, compare and lock the defaults of tools.", no_args_is_help=True)

LOCK = Path("defaults.lock")
Modules = Annotated[
    list[str] | None,
    typer.Argument(metavar="[MODULE…]", help="Modules whose tools are reviewed; imported."),
]
LockFile = Annotated[Path, typer.Option("--file", help="The lock file.")]


@app.command()
def show(as_json: options.Json = False) -> None:
    """Print every version of the defaults, and why it is there."""
    if as_json:
        print_json(
            [
                {
                    "version": item.version,
                    "reason": item.reason,
                    "sandbox_unless_read_only": item.sandbox_unless_read_only,
                    "values": {
                        name: "always" if callable(value) else value
                        for name, value in item.values.items()
                    },
                }
                for item in DEFAULTS.values()
            ]
        )
        return
    for item in DEFAULTS.values():
        out().print(f"version {item.version}: {item.reason}", style="bold", markup=False)
        for name, value in item.values.items():
            out().print(f"  {name} = {'always' if callable(value) else value!r}", markup=False)
        needs = "not is_read_only" if item.sandbox_unless_read_only else "False"
        out().print(f"  needs_sandbox, unless stated = {needs}\n", markup=False)


@app.command()
def diff(
    before: Annotated[int, typer.Argument(metavar="BEFORE")],
    after: Annotated[int, typer.Argument(metavar="AFTER")],
    modules: Modules = None,
    as_json: options.Json = False,
) -> None:
    """Print for every tool what would change for it: flag by flag, placement by placement."""
    with errors_end_the_program(as_json=as_json):
        changes = diff_defaults(_tools(modules), before, after)
    _show(changes, as_json=as_json)


@app.command()
def lock(modules: Modules = None, file: LockFile = LOCK) -> None:
    """Write down what holds for every tool now, as reviewed."""
    with errors_end_the_program(as_json=False):
        snapshot = snapshot_of(_tools(modules))
        file.write_text(json.dumps(snapshot, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    stderr().print(safe(f"{len(snapshot)} tools locked in {file}", one_line=True))


@app.command()
def check(modules: Modules = None, file: LockFile = LOCK, as_json: options.Json = False) -> None:
    """Compare the tools with the lock file. Ends with 1 when something changed unreviewed."""
    with errors_end_the_program(as_json=as_json):
        changes = diff_snapshots(_locked(file), snapshot_of(_tools(modules)))
    _show(changes, as_json=as_json)
    if changes:
        stderr().print("Review the table; then `sandboxed-tools defaults lock` accepts it.")
        raise typer.Exit(exit_codes.FAILED)


def _locked(file: Path) -> Snapshot:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}") from None
    well_formed = isinstance(found, dict) and all(
        isinstance(examples, dict) and all(isinstance(values, dict) for values in examples.values())
        for examples in found.values()
    )
    if not well_formed:
        raise ConfigurationError(f"{file} is no lock file; write it with `defaults lock`.")
    return cast(Snapshot, found)


def _tools(modules: list[str] | None) -> list[AnyTool]:
    """The shipped tools, or those of the modules named; importing runs their code."""
    if not modules:
        return list(SHIPPED)
    found: dict[int, AnyTool] = {}
    # Behind everything else: a file in this folder must not stand for a module of the library's.
    sys.path.append("")
    try:
        for name in modules:
            for value in vars(_imported(name)).values():
                if isinstance(value, Tool):
                    found[id(value)] = value
    finally:
        sys.path.remove("")
    if not found:
        raise ConfigurationError(f"No tools in {', '.join(modules)}.")
    return list(found.values())


def _imported(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigurationError(f"{name} cannot be imported: {error}") from None


def _show(changes: tuple[Change, ...], *, as_json: bool) -> None:
    if as_json:
        print_json(list(changes))
        return
    if not changes:
        stderr().print("Nothing changes.")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("tool", "example", "what", "before", "after"):
        table.add_column(column, overflow="fold")
    for change in changes:
        table.add_row(
            safe(change.tool),
            safe(change.example),
            change.what,
            safe(str(change.before), "dim"),
            safe(str(change.after), "bold yellow"),
        )
    out().print(table)
