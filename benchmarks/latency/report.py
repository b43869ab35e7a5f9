"""One run as tables for a person."""

from __future__ import annotations

from benchmarks.latency import names
from benchmarks.latency.figures import Figures
from benchmarks.latency.targets import Judged
from rich.console import Console
from rich.table import Table

__all__ = ["show"]


def show(figures: Figures, judged: list[Judged], *, title: str) -> None:
    """Print medians and ratios, the other figures, and which promises are kept."""
    console = Console(width=130)
    console.print(_medians(figures, title))
    if figures.single:
        others = Table(title="other figures")
        others.add_column("what")
        others.add_column("value", justify="right")
        for name, value in figures.single.items():
            others.add_row(name, f"{value:.1f}")
        console.print(others)
    promises = Table(title="must reach")
    for name in ("", "what", "measured", "bound"):
        promises.add_column(name, justify="left" if name in ("", "what") else "right")
    for one in judged:
        mark = "✓" if one.is_kept else "✗"
        promises.add_row(mark, one.what, f"{one.value:.2f}", f"{one.must_be} {one.bound:g}")
    console.print(promises)


def _medians(figures: Figures, title: str) -> Table:
    table = Table(title=title)
    for name in ("way", "fresh", "p50", "p95", "p99", "× docker exec", "× docker run", "n"):
        table.add_column(name, justify="left" if name == "way" else "right")
    bases = [figures.find(name) for name in (names.DOCKER_EXEC, names.DOCKER_RUN)]
    for series in figures.series:
        if not series.times_ms:
            table.add_row(f"{series.name} ({series.note})", series.fresh, *"------")
            continue
        times = [f"{series.percentile(share):.1f}" for share in (0.5, 0.95, 0.99)]
        ratios = [
            "-" if base is None else f"{base.median_ms / series.median_ms:.1f}" for base in bases
        ]
        table.add_row(series.name, series.fresh, *times, *ratios, str(len(series.times_ms)))
    return table
