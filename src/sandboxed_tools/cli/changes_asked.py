"""After a command: what it changed, and on a terminal the question what is to become of it."""

from __future__ import annotations

import sys

import typer

from sandboxed_tools.cli.changes_shown import notes_of, show_decision, show_diffs
from sandboxed_tools.cli.console import errors_end_the_program, safe, stderr
from sandboxed_tools.policy import LayeredPolicy
from sandboxed_tools.tool import ChangeSummary
from sandboxed_tools.workspace import ChangeSet, ChangeStore, apply_set, diff_set, discard_set

__all__ = ["decide_about"]

QUESTION = "[d]iff, [a]pply, [f]orget or [k]eep"


def decide_about(summary: ChangeSummary | None) -> None:
    """Say what a command changed, and ask on a terminal what is to become of it.

    Elsewhere the lines are printed that show and apply it. All of this goes to standard error, but
    for diffs. What is answered changes nothing about how the command ended.
    """
    if summary is None or summary.id is None:
        return
    with errors_end_the_program(as_json=False):
        store = ChangeStore()
        change_set = store.get(summary.id)
        console = stderr()
        console.print(safe(f"{summary.decision}: {change_set.summary()}", "bold"))
        for note in notes_of(change_set):
            console.print(safe(note, "yellow"))
        if change_set.status == "applied":
            console.print(f"undo it: sandboxed-tools changes undo {change_set.id}", markup=False)
        elif not (sys.stdin.isatty() and sys.stderr.isatty()) or not _is_decided(store, change_set):
            _say_how(change_set)


def _say_how(change_set: ChangeSet) -> None:
    console = stderr()
    console.print(f"see it:   sandboxed-tools changes diff {change_set.id}", markup=False)
    console.print(f"apply it: sandboxed-tools changes apply {change_set.id}", markup=False)


def _is_decided(store: ChangeStore, change_set: ChangeSet) -> bool:
    """Ask until there is an answer; ``False`` when the set stays held."""
    while True:
        try:
            answer = typer.prompt(QUESTION, default="k", err=True).strip().lower()
        except typer.Abort:
            stderr().print()
            return False
        if answer in ("d", "diff"):
            show_diffs(diff_set(store, change_set))
        elif answer in ("a", "apply"):
            protected = LayeredPolicy().current().policy.protected_paths
            decision = apply_set(store, change_set.id, protected=protected)
            show_decision(decision, "applied", rest=None)
            # Whatever speaks against it takes words that only ``changes apply`` has.
            return decision.done
        elif answer in ("f", "forget"):
            decision = discard_set(store, change_set.id)
            show_decision(decision, "discarded", rest=None)
            return decision.done
        elif answer in ("k", "keep"):
            return False
