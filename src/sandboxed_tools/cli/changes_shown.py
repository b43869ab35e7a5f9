"""How change sets, their diffs and what was decided about them are shown to a person."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from sandboxed_tools.cli.console import out, safe, stderr
from sandboxed_tools.workspace import HALF_DONE, ChangeDiff, ChangeSet, Decision, SetState
from sandboxed_tools.workspace.spelling import one_line_name

__all__ = ["decision_object", "notes_of", "show_decision", "show_diffs", "show_list", "show_set"]

STYLES = {"+": "green", "-": "red", "@": "cyan"}
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def show_list(found: Iterable[SetState]) -> None:
    """A line a set, oldest first."""
    table = Table(box=None, pad_edge=False)
    for column in ("id", "status", "age", "what", "workspace"):
        table.add_column(column, overflow="fold")
    for item in found:
        status = f"{item.status}, interrupted" if item.status in HALF_DONE else item.status
        cells = (item.id, status, _age(item), item.summary, os.fsdecode(item.workspace))
        table.add_row(*(safe(cell, one_line=True) for cell in cells))
    out().print(table)


def _age(item: SetState) -> str:
    seconds = max(0, time.time() - item.created_s)
    size, unit = next((pair for pair in UNITS if seconds >= pair[0]), UNITS[-1])
    return f"{seconds // size:.0f} {unit}"


def show_set(change_set: ChangeSet) -> None:
    """A line an entry, then what else there is to know."""
    console = out()
    for change in change_set.changes:
        name = one_line_name(change.path)
        moved = f" (moved: {one_line_name(change.renamed)})" if change.renamed else ""
        console.print(safe(f"{change.action:9} {name}{moved}", one_line=True))
    for note in notes_of(change_set):
        stderr().print(safe(note, "yellow"))
    console.print(safe(f"{change_set.id}: {change_set.summary()} ({change_set.status})", "bold"))


def notes_of(change_set: ChangeSet) -> tuple[str, ...]:
    """What a person should know before deciding."""
    if change_set.ended_by_itself:
        return change_set.notes
    return (*change_set.notes, "the command was stopped before it had ended")


def show_diffs(diffs: Iterable[ChangeDiff]) -> None:
    """Print diffs in colours; everything in them is foreign text."""
    console = out()
    for item in diffs:
        name = one_line_name(item.change.path)
        note = f" ({item.note})" if item.note else ""
        console.print(safe(f"{item.change.action} {name}{note}", "bold", one_line=True))
        for line in _diff_lines(item.text):
            console.print(safe(line, STYLES.get(line[:1], ""), one_line=True), soft_wrap=True)


def _diff_lines(text: str) -> list[str]:
    """Only a line feed ends a line. A carriage return before it is shown where that is changed."""
    lines = text.split("\n")[:-1]
    changed = [line for line in lines[2:] if line.startswith(("+", "-"))]
    if all(line.endswith("\r") for line in changed):
        return [line.removesuffix("\r") for line in lines]
    return lines


def decision_object(decision: Decision) -> dict[str, object]:
    """What became of a wish, as ``--json`` prints it; ``rest`` is the id of what stays held."""
    change_set = decision.change_set
    return {
        "done": decision.done,
        "id": change_set.id,
        "status": change_set.status,
        "summary": change_set.summary(),
        "rest": decision.rest,
        "problems": [
            {"path": os.fsdecode(item.path), "kind": item.kind, "reason": item.reason}
            for item in decision.problems
        ],
    }


def show_decision(decision: Decision, done: str, *, rest: SetState | None) -> None:
    """Say what became of a wish, and what there is to do now."""
    change_set = decision.change_set
    if decision.done:
        out().print(safe(f"{done} {change_set.id}: {change_set.summary()}", "green"))
    else:
        stderr().print(Text(f"not {done}: ", style="bold red") + safe(change_set.id))
        for problem in decision.problems:
            stderr().print(safe(f"  {problem} [{problem.kind}]", one_line=True))
        _say_what_helps(decision, done)
    if rest is not None:
        stderr().print(safe(f"still held as {rest.id}: {rest.summary}"))


def _say_what_helps(decision: Decision, done: str) -> None:
    console = stderr()
    kinds = {problem.kind for problem in decision.problems}
    status = decision.change_set.status
    if not kinds and done == "undone":
        console.print(f"  It is {status}: only what is applied can be undone.")
    elif not kinds:
        console.print("  None of its paths was chosen.")
    if "refused" in kinds:
        console.print("What is refused is never applied; --except leaves it out.")
    if "protected" in kinds:
        console.print("--allow-protected says yes to them; --except leaves them out.")
    if "conflict" in kinds and done != "discarded":
        console.print("--force wins over what was changed meanwhile.")
