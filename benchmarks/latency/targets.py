"""What the project promises about these figures, each computed and compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from benchmarks.latency import names
from benchmarks.latency.figures import Figures, percentile

__all__ = ["Judged", "judge"]

Bound = Literal["at least", "at most"]


@dataclass(frozen=True, slots=True)
class Judged:
    """One promise: ``value`` must be at least, or at most, ``bound``."""

    what: str
    value: float
    bound: float
    must_be: Bound

    @property
    def is_kept(self) -> bool:
        return self.value >= self.bound if self.must_be == "at least" else self.value <= self.bound


def judge(figures: Figures) -> list[Judged]:
    """Every promise whose figures were measured."""
    return [*_latencies(figures), *_rates(figures)]


def _median(figures: Figures, name: str) -> float | None:
    series = figures.find(name)
    return None if series is None else series.median_ms


def _latencies(figures: Figures) -> Iterator[Judged]:
    rules: tuple[tuple[str, str, str, float, Bound], ...] = (
        ("docker exec / warm call", names.DOCKER_EXEC, names.WHOLE_PATH, 10.0, "at least"),
        ("docker run / warm call", names.DOCKER_RUN, names.WHOLE_PATH, 50.0, "at least"),
        ("cold call / bare SDK", names.COLD, names.BARE_SDK, 1.15, "at most"),
    )
    for what, above, below, bound, must_be in rules:
        top, bottom = _median(figures, above), _median(figures, below)
        if top is not None and bottom is not None:
            yield Judged(what, top / bottom, bound, must_be)
    found = [figures.find(name) for name in (names.WHOLE_PATH, names.BURST)]
    times = [time for series in found if series is not None for time in series.times_ms]
    if times:
        spread = percentile(times, 0.99) / percentile(times, 0.5)
        yield Judged("warm call, p99 / median, pool not empty", spread, 5.0, "at most")


def _rates(figures: Figures) -> Iterator[Judged]:
    single = figures.single
    ratios = (
        ("sustained / bare loop, same parallelism", names.OUR_RATE, names.BARE_RATE, 0.9),
        ("1 GiB: rate / docker run", names.FLOOD_OURS, names.FLOOD_DOCKER, 0.8),
    )
    for what, above, below, bound in ratios:
        if above in single and below in single:
            yield Judged(what, single[above] / single[below], bound, "at least")
    figures_alone = (
        ("1 GiB: client memory, MiB", names.FLOOD_GROWTH, 32.0),
        (names.SLOWEST_TIMEOUT, names.SLOWEST_TIMEOUT, 1000.0),
        (names.SLOWEST_CANCEL, names.SLOWEST_CANCEL, 1000.0),
    )
    for what, name, bound in figures_alone:
        if name in single:
            yield Judged(what, single[name], bound, "at most")
    if names.HOST_CALL in single and names.HOST_WALK in single:
        without_walk = single[names.HOST_CALL] - single[names.HOST_WALK]
        yield Judged("host call without its walk, µs", without_walk, 300.0, "at most")
