"""What the demonstration shows: a row for each attack, then the state of the host."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from sandboxed_tools.cli.console import out, safe, stderr
from sandboxed_tools.cli.demo_host import Bait, HostReport

__all__ = ["Outcome", "Run", "Verdict", "show"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attack came to. ``fault`` says how it was not contained, or is ``None``."""

    id: str
    title: str
    happened: str
    stopped_by: str
    seconds: float
    fault: str | None

    @property
    def is_contained(self) -> bool:
        return self.fault is None


@dataclass(frozen=True, slots=True)
class Verdict:
    """All outcomes, and the state of the host and of the engine afterwards."""

    outcomes: tuple[Outcome, ...]
    host: HostReport
    left_on_engine: tuple[str, ...]

    @property
    def is_contained(self) -> bool:
        return (
            all(outcome.is_contained for outcome in self.outcomes)
            and self.host.is_untouched
            and not self.left_on_engine
        )


Run = Callable[[Callable[[str], None], Callable[["Outcome"], None]], "Verdict"]
"""Runs all attacks; it tells the title of each that begins, and the outcome of each that ended."""


def show(run: Run, bait: Bait, *, total: int) -> Verdict:
    """Run the attacks, showing each as it ends: a live table on a terminal, else plain lines."""
    console = out()
    outcomes: list[Outcome] = []
    if console.is_terminal:
        console.print(_headline(bait, total))
        with _live(outcomes, total) as (started, ended):
            verdict = run(started, ended)
        console.print(_summary(verdict, plain=False))
        return verdict
    verdict = run(
        lambda title: stderr().print(f"trying to {title} …", style="dim"), outcomes.append
    )
    console.print(_table(outcomes, plain=True))
    console.print(_summary(verdict, plain=True))
    return verdict


@contextlib.contextmanager
def _live(
    outcomes: list[Outcome], total: int
) -> Iterator[tuple[Callable[[str], None], Callable[[Outcome], None]]]:
    with Live(console=out(), refresh_per_second=12, transient=False) as live:

        def started(title: str) -> None:
            busy = Spinner("dots", Text(f" {len(outcomes) + 1}/{total}  {title} …", style="dim"))
            live.update(Group(_table(outcomes, plain=False), Padding(busy, (0, 2))))

        def ended(outcome: Outcome) -> None:
            outcomes.append(outcome)
            live.update(_table(outcomes, plain=False), refresh=True)

        yield started, ended


def _headline(bait: Bait, total: int) -> RenderableType:
    text = Text.assemble(
        ("A hostile script, ", "bold"),
        (f"{total} attacks", "bold red"),
        (", each through the real path: ", "bold"),
        ("Toolbox → Bash → placement → container", "bold cyan"),
        "\n",
        (f"bait: {bait.workspace}, a secret beside it, port {bait.port}", "dim"),
    )
    return Padding(text, (1, 2))


def _table(outcomes: list[Outcome], *, plain: bool) -> Table:
    table = Table(
        box=None if plain else box.ROUNDED,
        border_style="dim",
        header_style="" if plain else "bold",
        pad_edge=not plain,
    )
    table.add_column("" if plain else " ", no_wrap=True)
    table.add_column("the attack tried to", no_wrap=plain)
    table.add_column("what happened", no_wrap=plain)
    table.add_column("stopped by", no_wrap=plain)
    table.add_column("time", justify="right", no_wrap=True)
    for outcome in outcomes:
        mark = safe("✓", "bold green") if outcome.is_contained else safe("✗", "bold red")
        if plain:
            mark = safe("contained" if outcome.is_contained else "ESCAPED")
        table.add_row(
            mark,
            safe(outcome.title, one_line=True),
            safe(outcome.fault or outcome.happened, "" if plain else "dim", one_line=True),
            safe(outcome.stopped_by, "" if plain else "yellow", one_line=True),
            f"{outcome.seconds:.1f} s",
        )
    return table


def _summary(verdict: Verdict, *, plain: bool) -> RenderableType:
    host = verdict.host
    facts = (
        (
            not host.changed,
            f"{host.files} files of the host unchanged: content, mode, owner, time",
            f"changed on the host: {', '.join(host.changed)}",
        ),
        (
            not host.connections,
            "no connection reached the host",
            f"{host.connections} connections reached the host",
        ),
        (
            not host.daemons,
            "no process left behind",
            f"processes left behind: {', '.join(map(str, host.daemons))}",
        ),
        (
            not verdict.left_on_engine,
            "no container or volume left behind",
            f"left on the engine: {', '.join(verdict.left_on_engine)}",
        ),
    )
    lines = [
        safe("✓ " if good else "✗ ", "bold green" if good else "bold red")
        + safe(yes if good else no, one_line=True)
        for good, yes, no in facts
    ]
    contained = sum(outcome.is_contained for outcome in verdict.outcomes)
    seconds = sum(outcome.seconds for outcome in verdict.outcomes)
    closing = f"{contained} of {len(verdict.outcomes)} attacks contained in {seconds:.0f} s."
    style = "bold green" if verdict.is_contained else "bold red"
    summary = Group(Text(), *lines, Text(), safe(closing, style))
    return summary if plain else Padding(summary, (0, 2, 1, 2))
