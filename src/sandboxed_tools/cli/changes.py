"""``changes``: what sandboxed commands changed, looked at and decided about."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from sandboxed_tools.cli import exit_codes, options
from sandboxed_tools.cli.changes_shown import (
    decision_object,
    show_decision,
    show_diffs,
    show_list,
    show_set,
)
from sandboxed_tools.cli.console import errors_end_the_program, out, print_json, safe, stderr
from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.policy import LayeredPolicy
from sandboxed_tools.workspace import (
    ChangeSet,
    ChangeStore,
    Decision,
    SetState,
    apply_set,
    diff_set,
    discard_set,
    undo_set,
)

__all__ = ["app"]

app = typer.Typer(help="Look at held changes, and apply, discard or undo them.")

Id = Annotated[
    str | None, typer.Argument(metavar="ID", help="A change set; the newest when omitted.")
]
Place = Annotated[
    Path | None,
    typer.Option(
        "--workspace", "-w", metavar="DIR", help="Whose sets are meant; else the current folder's."
    ),
]
Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="PATTERN", help="These paths; may repeat.")
]
Except = Annotated[
    list[str] | None,
    typer.Option("--except", metavar="PATTERN", help="All but these paths; may repeat."),
]
Force = Annotated[bool, typer.Option("--force", help="Win over what was changed meanwhile.")]


@app.command("list")
def list_sets(
    workspace: Place = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Decided ones too, and of every workspace.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """List the sets that wait for a decision about this workspace."""
    with errors_end_the_program(as_json=as_json):
        place = None if everything else (workspace or Path()).resolve()
        found = ChangeStore().sets(workspace=place)
        shown = [item for item in found if everything or item.status not in ("applied", "undone")]
        if as_json:
            print_json([item.to_json() for item in shown])
        elif shown:
            show_list(shown)
        else:
            stderr().print("Nothing is held.")


@app.command()
def show(set_id: Id = None, workspace: Place = None, as_json: options.Json = False) -> None:
    """Show what a set changes, a line an entry."""
    with errors_end_the_program(as_json=as_json):
        change_set = _find(ChangeStore(), set_id, workspace)
        if as_json:
            print_json(change_set.to_json())
        else:
            show_set(change_set)


@app.command()
def diff(
    set_id: Id = None,
    workspace: Place = None,
    only: Only = None,
    excluding: Except = None,
    as_json: options.Json = False,
) -> None:
    """Show the lines that differ."""
    with errors_end_the_program(as_json=as_json):
        store = ChangeStore()
        change_set = _find(store, set_id, workspace)
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
    workspace: Place = None,
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
            _find(store, set_id, workspace, status="held").id,
            only=tuple(only or ()),
            excluding=tuple(excluding or ()),
            force=force,
            allow_protected=allow_protected,
            protected=LayeredPolicy().current().policy.protected_paths,
        )
        _report(store, decision, "applied", as_json=as_json)


@app.command()
def discard(set_id: Id = None, workspace: Place = None, as_json: options.Json = False) -> None:
    """Forget a set. A held one is gone, an applied one stays applied for good."""
    with errors_end_the_program(as_json=as_json):
        store = ChangeStore()
        decision = discard_set(store, _find(store, set_id, workspace, status="held").id)
        _report(store, decision, "discarded", as_json=as_json)


@app.command()
def undo(
    set_id: Id = None,
    workspace: Place = None,
    force: Force = False,
    as_json: options.Json = False,
) -> None:
    """Put back exactly what an applied set replaced."""
    with errors_end_the_program(as_json=as_json):
        store = ChangeStore()
        found = _find(store, set_id, workspace, status="applied")
        decision = undo_set(store, found.id, force=force)
        _report(store, decision, "undone", as_json=as_json)


def _report(store: ChangeStore, decision: Decision, done: str, *, as_json: bool) -> None:
    """Print what became of a wish, and end with 1 when it was not carried out."""
    if as_json:
        print_json(decision_object(decision))
    else:
        rest = None if decision.rest is None else store.get(decision.rest).state
        show_decision(decision, done, rest=rest)
    if not decision.done:
        raise typer.Exit(exit_codes.FAILED)


def _find(
    store: ChangeStore, set_id: str | None, workspace: Path | None, *, status: str | None = None
) -> ChangeSet:
    """The set of an id; without one the newest of the folder's, with that status."""
    if set_id is not None:
        return store.get(set_id)
    place = (workspace or Path()).resolve()
    found = [
        item for item in store.sets(workspace=place) if status is None or item.status == status
    ]
    if not found:
        which = f"{status} " if status else ""
        raise ConfigurationError(
            f"There is no {which}change set for the folder {place.name!r}; name one, or its "
            "workspace with -w. `sandboxed-tools changes list --all` lists them."
        )
    return store.get(max(found, key=_moment).id)


def _moment(item: SetState) -> float:
    return item.decided_s or item.created_s
