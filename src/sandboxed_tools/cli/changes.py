"""``changes``: what sandboxed commands changed, looked at and decided about."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from sandboxed_tools.cli import exit_codes, options
from sandboxed_tools.cli.console import errors_end_the_program, out, print_json, safe, stderr
from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.policy import LayeredPolicy
from sandboxed_tools.tool import ChangeSummary
from sandboxed_tools.workspace import (
    ChangeDiff,
    ChangeSet,
    ChangeStore,
    Decision,
    SetState,
    apply_set,
    diff_set,
    discard_set,
    undo_set,
)

__all__ = ["app", "decide_about"]

app = typer.Typer(help="Look at held changes, and apply, discard or undo them.")

Id = Annotated[
    str | None, typer.Argument(metavar="[ID]", help="A change set; the newest when omitted.")
]
Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="PATTERN", help="These paths; may repeat.")
]
Except = Annotated[
    list[str] | None,
    typer.Option("--except", metavar="PATTERN", help="All but these paths; may repeat."),
]
Force = Annotated[bool, typer.Option("--force", help="Win over what was changed meanwhile.")]

STYLES = {"+": "green", "-": "red", "@": "cyan"}


@app.command("list")
def list_sets(
    workspace: options.Workspace = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Decided ones too, and of every workspace.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """List the sets that are held for this workspace."""
    with errors_end_the_program(as_json=as_json):
        place = None if everything else (workspace or Path()).resolve()
        found = ChangeStore().sets(workspace=place)
    shown = [item for item in found if everything or item.status == "held"]
    if as_json:
        print_json([item.to_json() for item in shown])
        return
    if not shown:
        stderr().print("Nothing is held.")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("id", "status", "age", "what", "workspace"):
        table.add_column(column, overflow="fold")
    for item in shown:
        age = f"{max(0, time.time() - item.created_s):.0f} s"
        cells = (item.id, item.status, age, item.summary, os.fsdecode(item.workspace))
        table.add_row(*(safe(cell, one_line=True) for cell in cells))
    out().print(table)


@app.command()
def show(set_id: Id = None, as_json: options.Json = False) -> None:
    """Show what a set changes, a line an entry."""
    with errors_end_the_program(as_json=as_json):
        change_set = _find(ChangeStore(), set_id)
    if as_json:
        print_json(change_set.to_json())
        return
    for change in change_set.changes:
        name = os.fsdecode(change.path)
        moved = f" (moved: {os.fsdecode(change.renamed)})" if change.renamed else ""
        out().print(safe(f"{change.action:9} {name}{moved}", one_line=True))
    for note in change_set.notes:
        stderr().print(safe(note, "yellow"))
    out().print(safe(f"{change_set.id}: {change_set.summary()} ({change_set.status})", "bold"))


@app.command()
def diff(
    set_id: Id = None,
    only: Only = None,
    excluding: Except = None,
    as_json: options.Json = False,
) -> None:
    """Show the lines that differ."""
    with errors_end_the_program(as_json=as_json):
        store = ChangeStore()
        change_set = _find(store, set_id)
        diffs = diff_set(
            store, change_set, only=tuple(only or ()), excluding=tuple(excluding or ())
        )
        if as_json:
            print_json(
                [
                    {"path": os.fsdecode(item.change.path), "diff": item.text, "note": item.note}
                    for item in diffs
                ]
            )
            return
        show_diffs(diffs)
    out().print(safe(f"{change_set.id}: {change_set.summary()}", "bold"))


@app.command()
def apply(
    set_id: Id = None,
    only: Only = None,
    excluding: Except = None,
    force: Force = False,
    allow_protected: Annotated[
        bool, typer.Option("--allow-protected", help="Say yes to protected paths as well.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Bring a held set into its workspace, all of it or nothing. Ends with 1 when it was not."""
    with errors_end_the_program(as_json=as_json):
        store = ChangeStore()
        decision = apply_set(
            store,
            _find(store, set_id, status="held").id,
            only=tuple(only or ()),
            excluding=tuple(excluding or ()),
            force=force,
            allow_protected=allow_protected,
            protected=LayeredPolicy().current().policy.protected_paths,
        )
    show_decision(decision, "applied", as_json=as_json)


@app.command()
def discard(set_id: Id = None, as_json: options.Json = False) -> None:
    """Throw a held set away; an applied one can no longer be undone then."""
    with errors_end_the_program(as_json=as_json):
        store = ChangeStore()
        decision = discard_set(store, _find(store, set_id, status="held").id)
    show_decision(decision, "discarded", as_json=as_json)


@app.command()
def undo(set_id: Id = None, force: Force = False, as_json: options.Json = False) -> None:
    """Put back exactly what an applied set replaced."""
    with errors_end_the_program(as_json=as_json):
        store = ChangeStore()
        decision = undo_set(store, _find(store, set_id, status="applied").id, force=force)
    show_decision(decision, "undone", as_json=as_json)


def _find(store: ChangeStore, set_id: str | None, *, status: str | None = None) -> ChangeSet:
    """The set of an id; without one the newest of the current folder's, with that status."""
    if set_id is not None:
        return store.get(set_id)
    found = [
        item
        for item in store.sets(workspace=Path().resolve())
        if status is None or item.status == status
    ]
    if not found:
        which = f"{status} " if status else ""
        raise ConfigurationError(f"There is no {which}change set for this folder; name one.")
    return store.get(max(found, key=_moment).id)


def _moment(item: SetState) -> float:
    return item.decided_s or item.created_s


def decide_about(summary: ChangeSummary | None) -> None:
    """After a command: say what it changed, and ask on a terminal what is to become of it.

    Elsewhere the line is printed that applies it. All of this goes to standard error.
    """
    if summary is None or summary.id is None:
        return
    with errors_end_the_program(as_json=False):
        store = ChangeStore()
        change_set = store.get(summary.id)
        console = stderr()
        console.print(safe(f"{summary.decision}: {change_set.summary()}", "bold"))
        for note in change_set.notes:
            console.print(safe(note, "yellow"))
        if change_set.status == "applied":
            console.print(f"undo it: sandboxed-tools changes undo {change_set.id}", markup=False)
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            console.print(f"see it:   sandboxed-tools changes diff {change_set.id}", markup=False)
            console.print(f"apply it: sandboxed-tools changes apply {change_set.id}", markup=False)
            return
        _ask(store, change_set)


def _ask(store: ChangeStore, change_set: ChangeSet) -> None:
    while True:
        answer = typer.prompt("[d]iff, [a]pply, [f]orget or [k]eep", default="k", err=True)
        if answer.startswith("d"):
            show_diffs(diff_set(store, change_set))
            continue
        if answer.startswith("a"):
            protected = LayeredPolicy().current().policy.protected_paths
            decision = apply_set(store, change_set.id, protected=protected)
            show_decision(decision, "applied", as_json=False)
        elif answer.startswith("f"):
            show_decision(discard_set(store, change_set.id), "discarded", as_json=False)
        return


def show_diffs(diffs: Iterable[ChangeDiff]) -> None:
    """Print diffs in colours; everything in them is foreign text."""
    console = out()
    for item in diffs:
        name = os.fsdecode(item.change.path)
        note = f" ({item.note})" if item.note else ""
        console.print(safe(f"{item.change.action} {name}{note}", "bold", one_line=True))
        for line in item.text.splitlines():
            console.print(safe(line, STYLES.get(line[:1], ""), one_line=True), soft_wrap=True)


def show_decision(decision: Decision, done: str, *, as_json: bool) -> None:
    """Print what became of a wish, and end with 1 when it was not carried out."""
    change_set = decision.change_set
    if as_json:
        print_json(
            {
                "done": decision.done,
                "id": change_set.id,
                "status": change_set.status,
                "summary": change_set.summary(),
                "problems": [
                    {"path": os.fsdecode(item.path), "kind": item.kind, "reason": item.reason}
                    for item in decision.problems
                ],
            }
        )
    elif decision.done:
        out().print(safe(f"{done} {change_set.id}: {change_set.summary()}", "green"))
    else:
        stderr().print(Text(f"not {done}: ", style="bold red") + safe(change_set.id))
        for problem in decision.problems:
            stderr().print(safe(f"  {problem} [{problem.kind}]", one_line=True))
        _say_what_helps({problem.kind for problem in decision.problems})
    if not decision.done:
        raise typer.Exit(exit_codes.FAILED)


def _say_what_helps(kinds: set[str]) -> None:
    if "protected" in kinds:
        stderr().print("--allow-protected says yes to them; --except leaves them out.")
    if "conflict" in kinds:
        stderr().print("--force wins over what was changed meanwhile.")
