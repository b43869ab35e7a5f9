"""The medians as a bar chart on a logarithmic scale: one self-contained SVG file."""

from __future__ import annotations

import math
from html import escape

from benchmarks.latency.figures import Figures, Series

__all__ = ["svg"]

ROW, LEFT, BARS, TOP = 26, 360, 440, 58
OURS, OTHERS, DIRTY = "#2a7f62", "#7b8794", "#cbd2d9"
STYLE = (
    "text{font:13px sans-serif;fill:#1f2933}.small{font-size:11px;fill:#616e7c}"
    ".grid{stroke:#e4e7eb}@media(prefers-color-scheme:dark){text{fill:#e4e7eb}"
    ".small{fill:#9aa5b1}.grid{stroke:#3e4c59}}"
)


def svg(figures: Figures) -> str:
    """Bars of medians, the fastest first. Series without times are left out."""
    rows = sorted((s for s in figures.series if s.times_ms), key=lambda s: s.median_ms)
    low, high = _decades(rows)
    height = TOP + ROW * len(rows) + 30
    machine = ", ".join(f"{name} {value}" for name, value in figures.machine.items())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + BARS + 80}" height="{height}" '
        f'viewBox="0 0 {LEFT + BARS + 80} {height}" role="img">',
        f"<title>Median of one call in milliseconds</title><style>{STYLE}</style>",
        '<text x="10" y="20" font-weight="bold">Median of one call, ms (logarithmic)</text>',
        f'<text class="small" x="10" y="38">{escape(machine)}</text>',
    ]
    for decade in range(low, high + 1):
        x = LEFT + BARS * (decade - low) / (high - low)
        parts.append(
            f'<line class="grid" x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{height - 22}"/>'
            f'<text class="small" x="{x:.1f}" y="{height - 8}" text-anchor="middle">'
            f"{10.0**decade:g}</text>"
        )
    parts += [_bar(series, TOP + ROW * n, low=low, high=high) for n, series in enumerate(rows)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _decades(rows: list[Series]) -> tuple[int, int]:
    """The powers of ten around all medians, at least one apart."""
    medians = [max(series.median_ms, 1e-3) for series in rows] or [1.0]
    low = math.floor(math.log10(min(medians)))
    return low, max(low + 1, math.ceil(math.log10(max(medians))))


def _bar(series: Series, y: int, *, low: int, high: int) -> str:
    middle = series.median_ms
    width = max(2.0, BARS * (math.log10(max(middle, 1e-3)) - low) / (high - low))
    colour = OURS if series.is_ours else OTHERS if series.fresh == "yes" else DIRTY
    kept = "" if series.fresh == "yes" else " (kept)"
    return (
        f'<text x="10" y="{y + 15}">{escape(series.name)}</text>'
        f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="20" fill="{colour}"/>'
        f'<text class="small" x="{LEFT + width + 6:.1f}" y="{y + 15}">{middle:.1f}{kept}</text>'
    )
