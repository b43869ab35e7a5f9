"""What a run of the machine came to, as a table, and whether all of it held."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text
from tests.vm.machine import StepResult

from sandboxed_tools.tool.foreign_text import for_terminal

__all__ = ["Row", "rows", "show"]

TAIL = 1500


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. ``details`` say what did not hold, one each."""

    name: str
    held: bool
    result: str
    seconds: float = 0.0
    details: tuple[str, ...] = ()


def rows(wanted: Sequence[str], results: Sequence[StepResult]) -> list[Row]:
    """A row for each step that was wanted; one that the machine never got to has not held."""
    found = {result.name: result for result in results}
    return [
        _row(found[name]) if name in found else Row(name, False, "the machine never got to it")
        for name in wanted
    ]


def _row(step: StepResult) -> Row:
    ended_well = step.exit_code == 0 and not step.timed_out
    judge = {"doctor": _doctor, "conformance": _conformance}.get(step.name)
    try:
        if step.file is not None:
            result, details, any_passed = _tests(step.file)
            ended_well = ended_well and any_passed
        elif judge is not None:
            result, details = judge(json.loads(step.stdout))
        else:
            result, details = "done" if ended_well else f"failed with {step.exit_code}", ()
    except (ValueError, KeyError, TypeError, ElementTree.ParseError) as error:
        result, details, ended_well = f"its answer cannot be read ({error!r})", (), False
    if step.timed_out:
        result = f"ended at its deadline; {result}"
    if not ended_well and not details:
        details = (f"{step.stdout[-TAIL:]}\n{step.stderr[-TAIL:]}".strip(),)
    return Row(step.name, ended_well, result, step.seconds, details)


def _doctor(answer: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    states = Counter(item["state"] for item in answer["items"])
    facts = answer["facts"]
    where = (
        f"{facts['operating system']}, Linux {facts['kernel']}, engine {facts['engine']}, "
        f"runc {facts['runc']}, cgroup {facts['cgroup']}, {facts['security options']}"
    )
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    missing = (
        f"{item['name']}: {item['evidence']}"
        for item in answer["items"]
        if item["state"] == "missing"
    )
    return f"{counts}\n{where}", tuple(missing)


def _conformance(answer: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    results = answer["results"]
    held = Counter(r["id"].partition(".")[0] for r in results if r["outcome"] == "passed")
    groups = Counter(r["id"].partition(".")[0] for r in results)
    by_group = ", ".join(f"{name} {held[name]}/{groups[name]}" for name in groups)
    failed = (
        f"{r['id']}: {r['detail']}"
        for r in results
        if r["outcome"] not in ("passed", "known_difference")
    )
    return f"{held.total()} of {len(results)} checks held\n{by_group}", tuple(failed)


def _tests(junit: str) -> tuple[str, tuple[str, ...], bool]:
    """Counts and failures of a pytest run, and whether any test passed: where all were skipped,
    nothing has been proved. The file is this project's own tests' report."""
    root = ElementTree.fromstring(junit)
    cases = list(root.iter("testcase"))
    skipped = sum(case.find("skipped") is not None for case in cases)
    failures = tuple(_failures(cases))
    passed = len(cases) - skipped - len(failures)
    return f"{passed} passed, {len(failures)} failed, {skipped} skipped", failures, passed > 0


def _failures(cases: Sequence[ElementTree.Element]) -> Iterator[str]:
    for case in cases:
        for kind in ("failure", "error"):
            if (fault := case.find(kind)) is not None:
                yield f"{case.get('name')}: {(fault.get('message') or '')[:TAIL]}"
                break


def show(table_rows: Sequence[Row]) -> None:
    """Print the table, and below it what did not hold."""
    console = Console()
    table = Table(box=None, pad_edge=False)
    for column in ("step", "held", "seconds", "result"):
        table.add_column(column, overflow="fold")
    for row in table_rows:
        held = Text("yes", "green") if row.held else Text("no", "bold red")
        table.add_row(row.name, held, f"{row.seconds:.0f}", Text(for_terminal(row.result)))
    console.print(table)
    for row in table_rows:
        for detail in row.details:
            console.print(Text(for_terminal(f"{row.name}: {detail}")), soft_wrap=True)
