"""The statistics, the promises and the chart of the benchmark, without measuring anything."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks.latency import names
from benchmarks.latency.chart import svg
from benchmarks.latency.figures import Figures, Series, percentile
from benchmarks.latency.peers import start_peers
from benchmarks.latency.targets import judge


def figures(**medians: float) -> Figures:
    return Figures(
        {"processors": "2 <fast>"},
        [Series(getattr(names, name), "yes", times_ms=[ms] * 3) for name, ms in medians.items()],
    )


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1), (0.5, 50), (0.95, 95), (0.99, 99), (1.0, 100)]
)
def test_percentile_is_the_nearest_rank(share: float, expected: int) -> None:
    assert percentile([float(value) for value in range(100, 0, -1)], share) == expected


def test_percentile_of_few_values_is_one_of_them() -> None:
    assert [percentile([1.0, 2.0], share) for share in (0.5, 0.51, 0.99)] == [1.0, 2.0, 2.0]
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 0.5)


def test_promise_is_kept_at_its_bound_and_broken_beyond_it() -> None:
    kept = figures(DOCKER_EXEC=50.0, WHOLE_PATH=5.0, DOCKER_RUN=250.0, COLD=115.0, BARE_SDK=100.0)
    assert [one.is_kept for one in judge(kept)] == [True] * 4
    broken = figures(DOCKER_EXEC=49.0, WHOLE_PATH=5.0, DOCKER_RUN=249.0, COLD=116, BARE_SDK=100.0)
    assert [one.is_kept for one in judge(broken)] == [False, False, False, True]


def test_rare_slow_call_breaks_the_promise_about_the_slowest() -> None:
    slow = figures(WHOLE_PATH=5.0)
    slow.series[0].times_ms = [5.0] * 97 + [26.0] * 3
    (one,) = judge(slow)
    assert (one.value, one.is_kept) == (5.2, False)


def test_rates_and_memory_are_judged_when_they_were_measured() -> None:
    measured = Figures({})
    assert judge(measured) == []
    measured.single |= {names.BARE_RATE: 10.0, names.OUR_RATE: 8.9, names.FLOOD_GROWTH: 31.0}
    measured.single |= {names.HOST_CALL: 700.0, names.HOST_WALK: 500.0}
    assert [one.is_kept for one in judge(measured)] == [False, True, True]


def test_chart_is_one_xml_file_with_a_bar_for_each_way_that_has_times() -> None:
    shown = figures(WARM=5.0, DOCKER_RUN=300.0)
    shown.series.append(Series("a <peer> & more", "no", times_ms=[50.0], is_ours=False))
    shown.series.append(Series("missing", "yes", note="not installed"))
    root = ElementTree.fromstring(svg(shown))
    bars = root.findall("{http://www.w3.org/2000/svg}rect")
    widths = [float(bar.attrib["width"]) for bar in bars]
    assert len(widths) == 3
    assert widths == sorted(widths)
    assert "a <peer> & more" in "".join(root.itertext())
    assert "missing" not in "".join(root.itertext())


def test_bars_are_logarithmic() -> None:
    root = ElementTree.fromstring(svg(figures(WARM=10.0, COLD=100.0, DOCKER_RUN=1000.0)))
    widths = [float(bar.attrib["width"]) for bar in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert widths[2] - widths[1] == pytest.approx(widths[1] - widths[0], abs=2.5)


def test_chart_of_nothing_is_still_a_chart() -> None:
    assert ElementTree.fromstring(svg(Figures({}))).tag.endswith("svg")


def test_peer_that_is_not_installed_is_a_row_that_says_so(tmp_path: Path) -> None:
    for python in (tmp_path / "none", Path(sys.executable)):
        peers = start_peers(python, image="none", engine="unix:///nowhere")
        try:
            rows = [series for peer in peers for series in peer.series.values()]
            assert [(row.note, row.times_ms) for row in rows] == [("not installed", [])] * 3
            for peer in peers:
                peer.measure()
        finally:
            for peer in peers:
                peer.close()
