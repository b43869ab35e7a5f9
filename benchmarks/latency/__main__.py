"""What a call costs, beside the usual ways, in one run on one machine.

    python -m benchmarks.latency [--rounds N] [--json FILE] [--svg FILE] [--quick] [--check]

Everything runs the same command, ``bash -c 'echo hi; exit 3'``, in the same image, without a
network. The ways take turns round by round, so that a machine that becomes slower or faster
meanwhile does so for all. Times are milliseconds of wall clock until the result is there. Other
libraries are measured when ``make peers`` has installed them. Without ``--check`` nothing
here is an assertion: a shared machine shows other figures than a quiet one.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.to_thread
from benchmarks.latency import load
from benchmarks.latency.chart import svg
from benchmarks.latency.command import TEXT
from benchmarks.latency.figures import Figures, Series
from benchmarks.latency.ours import Ours, our_ways, settled, timed_call
from benchmarks.latency.peers import Peer, start_peers
from benchmarks.latency.report import show
from benchmarks.latency.targets import judge
from benchmarks.latency.usual import Usual, Way

from sandboxed_tools.sandbox.docker import Engine, find_engine
from sandboxed_tools.sandbox.docker.image_build import build_images
from sandboxed_tools.sandbox.docker.images import BASE_IMAGE, image_tag
from sandboxed_tools.tool.state import STATE_DIR_VARIABLE

PAUSE_S = 0.05


def timed(series: Series, work: Callable[[], object]) -> None:
    begin = time.perf_counter()
    work()
    series.times_ms.append((time.perf_counter() - begin) * 1000)


async def latencies(
    figures: Figures, engine: Engine, *, rounds: int, slow_every: int, python: Path
) -> None:
    """Every way, in turns. Ways that need a new container for each call join every second round."""
    image = image_tag(BASE_IMAGE)
    usual = Usual(engine, image)
    peers: list[Peer] = []
    try:
        peers = await anyio.to_thread.run_sync(
            functools.partial(start_peers, python, image=image, engine=engine.base_url)
        )
        ways = usual.ways()
        for _, plain in ways:
            plain()
        async with our_ways(engine) as ours:
            for number in range(rounds):
                await one_round(ways, ours, peers if number % slow_every == 0 else [])
        figures.series += [series for series, _ in ways] + usual.missing()
        figures.series += [series for peer in peers for series in peer.series.values()]
        figures.series += [series for series, _ in ours.ways]
    finally:
        for peer in peers:
            await anyio.to_thread.run_sync(peer.close)
        usual.close()


async def one_round(ways: list[Way], ours: Ours, peers: list[Peer]) -> None:
    for series, plain in ways:
        await anyio.to_thread.run_sync(timed, series, plain)
        await anyio.sleep(PAUSE_S)
    for peer in peers:
        await anyio.to_thread.run_sync(peer.measure)
        await anyio.sleep(PAUSE_S)
    for series, work in ours.ways:
        await settled(*ours.boxes)
        await timed_call(series, work)


def machine(engine: Engine) -> dict[str, str]:
    return {
        "processors": str(os.cpu_count()),
        "load": f"{os.getloadavg()[0]:.1f}",
        "kernel": platform.release(),
        "engine": engine.version,
        "Python": platform.python_version(),
        "on": datetime.now(UTC).date().isoformat(),
    }


async def measure(
    figures: Figures, engine: Engine, *, rounds: int, quick: bool, python: Path
) -> None:
    # First: the engine is busy for a while with what the others leave.
    await load.host_call(figures, count=1000)
    await latencies(figures, engine, rounds=rounds, slow_every=2, python=python)
    await load.bursts(figures, engine, count=1 if quick else 5)
    if quick:
        return
    await load.sustained(figures, engine, workers=4, count=32)
    await load.flood(figures, engine)
    await load.endings(figures, engine, rounds=3)
    await load.idle_memory(figures, engine, count=8)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40, help="times that each way is measured")
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--svg", type=Path, help="write a chart here")
    parser.add_argument("--quick", action="store_true", help="latencies only")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a promise is broken")
    parser.add_argument(
        "--peers", type=Path, default=Path(".bench-venv/bin/python"), help="their interpreter"
    )
    return parser.parse_args()


def main() -> int:
    asked = options()
    engine = find_engine()
    build_images(engine)
    figures = Figures(machine(engine))
    with TemporaryDirectory(prefix="bench-state-") as state:
        # Held changes and records of the benchmark are nobody's.
        os.environ[STATE_DIR_VARIABLE] = state
        anyio.run(
            functools.partial(
                measure,
                figures,
                engine,
                rounds=asked.rounds,
                quick=asked.quick,
                python=asked.peers,
            )
        )
    judged = judge(figures)
    show(figures, judged, title=f"bash -c '{TEXT}', milliseconds")
    if asked.json:
        promises = [
            {"what": one.what, "value": round(one.value, 3), one.must_be: one.bound}
            | {"kept": one.is_kept}
            for one in judged
        ]
        values = {**figures.as_json(), "must_reach": promises}
        asked.json.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    if asked.svg:
        asked.svg.write_text(svg(figures), encoding="utf-8")
    return int(asked.check and not all(one.is_kept for one in judged))


if __name__ == "__main__":
    sys.exit(main())
