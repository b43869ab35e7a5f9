"""What was measured, and the statistics over it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Figures", "Series", "percentile"]

Fresh = Literal["yes", "no"]


def percentile(values: list[float], share: float) -> float:
    """The nearest-rank percentile: the smallest value that ``share`` of all do not exceed.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("there is no percentile of nothing")
    rank = max(1, math.ceil(share * len(values)))
    return sorted(values)[rank - 1]


@dataclass(slots=True)
class Series:
    """Times of one way, in milliseconds. ``fresh``: each call gets an untouched container.

    ``note`` says why there are no times, or what must be known about them.
    """

    name: str
    fresh: Fresh
    note: str = ""
    is_ours: bool = False
    times_ms: list[float] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        return percentile(self.times_ms, share)

    @property
    def median_ms(self) -> float:
        return self.percentile(0.5)

    def as_json(self) -> dict[str, Any]:
        written: dict[str, Any] = {
            "name": self.name,
            "fresh": self.fresh == "yes",
            "ours": self.is_ours,
            "note": self.note,
            "calls": len(self.times_ms),
        }
        if self.times_ms:
            written["median_ms"] = round(self.median_ms, 3)
            written["p95_ms"] = round(self.percentile(0.95), 3)
            written["p99_ms"] = round(self.percentile(0.99), 3)
            written["times_ms"] = [round(value, 3) for value in self.times_ms]
        return written


@dataclass(slots=True)
class Figures:
    """Everything of one run: times by way, and other figures by name."""

    machine: dict[str, str]
    series: list[Series] = field(default_factory=list)
    single: dict[str, float] = field(default_factory=dict)

    def find(self, name: str) -> Series | None:
        """The series of that name, if it was measured."""
        return next((s for s in self.series if s.name == name and s.times_ms), None)

    def as_json(self) -> dict[str, Any]:
        return {
            "machine": self.machine,
            "series": [series.as_json() for series in self.series],
            "single": {name: round(value, 3) for name, value in self.single.items()},
        }
