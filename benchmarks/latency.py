"""What a call costs, beside the usual ways, in one run on one machine.

    python benchmarks/latency.py [--rounds N] [--json FILE] [--svg FILE] [--quick]

Everything runs the same command, ``bash -c 'echo hi; exit 3'``, in the same image, without a
network. The ways take turns round by round, so that a machine that becomes slower or faster
meanwhile does so for all. Times are milliseconds of wall clock until the result is there. Nothing
here is an assertion: a shared machine shows other figures than a quiet one.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import docker
import psutil
from rich.console import Console
from rich.table import Table

from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.sandbox.contract import SandboxSpec, WorkspaceMount
from sandboxed_tools.sandbox.docker import DockerSandbox, Engine, find_engine
from sandboxed_tools.sandbox.docker.image_build import build_images
from sandboxed_tools.sandbox.docker.images import BASE_IMAGE, image_tag
from sandboxed_tools.tool import Command, Limits
from sandboxed_tools.workspace import WorkspaceViews

TEXT = "echo hi; exit 3"
ARGV = ("bash", "-c", TEXT)
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
EXIT = 3
GIB = 1 << 30
PAUSE_S = 0.05


@dataclass(slots=True)
class Series:
    """Times of one way, in milliseconds."""

    name: str
    fresh: str
    times_ms: list[float] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        ordered = sorted(self.times_ms)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(slots=True)
class Figures:
    """Everything that was measured."""

    machine: dict[str, str]
    series: list[Series] = field(default_factory=list)
    single: dict[str, float] = field(default_factory=dict)


def timed(series: Series, work: Callable[[], object]) -> None:
    begin = time.perf_counter()
    work()
    series.times_ms.append((time.perf_counter() - begin) * 1000)


# ---- the usual ways ----


class Usual:
    """What people do today, with the same image."""

    def __init__(self, engine: Engine, image: str) -> None:
        self.image = image
        self.client = docker.DockerClient(base_url=engine.base_url, timeout=60)
        self.kept = self.client.containers.run(
            image, ["sleep", "3600"], entrypoint="", detach=True, network_mode="none"
        )

    def close(self) -> None:
        self.kept.remove(force=True)
        self.client.close()

    def docker_run(self) -> None:
        words = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "bash"]
        done = subprocess.run([*words, self.image, "-c", TEXT], capture_output=True, check=False)
        assert done.returncode == EXIT, done

    def sdk_run(self) -> None:
        with contextlib.suppress(docker.errors.ContainerError):  # raised for any exit code but 0
            self.client.containers.run(
                self.image, list(ARGV), entrypoint="", remove=True, network_mode="none"
            )

    def bare(self) -> None:
        """The least that a fresh container takes: create, start, wait, remove."""
        api = self.client.api
        config = api.create_host_config(network_mode="none")
        made = api.create_container(self.image, list(ARGV), entrypoint="", host_config=config)
        api.start(made["Id"])
        assert api.wait(made["Id"])["StatusCode"] == EXIT
        api.remove_container(made["Id"])

    def docker_exec(self) -> None:
        words = ["docker", "exec", str(self.kept.id), *ARGV]
        done = subprocess.run(words, capture_output=True, check=False)
        assert done.returncode == EXIT

    def sdk_exec(self) -> None:
        assert self.kept.exec_run(list(ARGV)).exit_code == EXIT

    @staticmethod
    def bubblewrap() -> None:
        words = ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "--die-with-parent"]
        done = subprocess.run([*words, *ARGV], capture_output=True, check=False)
        assert done.returncode == EXIT


# ---- ours ----


async def call(box: DockerSandbox, spec: SandboxSpec) -> None:
    result = await box.run(spec, Command(ARGV, env=ENV))
    assert (result.exit_code, result.stdout) == (EXIT, b"hi\n"), result


async def timed_call(series: Series, work: Callable[[], Awaitable[None]]) -> None:
    begin = time.perf_counter()
    await work()
    series.times_ms.append((time.perf_counter() - begin) * 1000)


async def settled(*boxes: DockerSandbox) -> None:
    """Wait until the shelves are full and nothing is being made or removed."""

    def is_busy(box: DockerSandbox) -> bool:
        status = box.status()
        return bool(status.removing) or any(s.ready < s.target for s in status.shelves)

    def wait() -> None:
        deadline = time.monotonic() + 30
        while any(is_busy(box) for box in boxes):
            if time.monotonic() > deadline:
                return
            time.sleep(0.02)
        time.sleep(PAUSE_S)

    await anyio.to_thread.run_sync(wait)


async def latencies(figures: Figures, engine: Engine, *, rounds: int) -> None:
    usual = Usual(engine, image_tag(BASE_IMAGE))
    ways = [
        (Series("docker run --rm", "yes"), usual.docker_run),
        (Series("docker SDK, containers.run", "yes"), usual.sdk_run),
        (Series("docker SDK, create + start + wait + remove", "yes"), usual.bare),
        (Series("docker exec, a container that is kept", "no"), usual.docker_exec),
        (Series("docker SDK, exec_run, a container that is kept", "no"), usual.sdk_exec),
    ]
    if shutil.which("bwrap"):
        ways.append((Series("bubblewrap on the host", "yes"), usual.bubblewrap))
    warm, cold = DockerSandbox(engine, views=WorkspaceViews()), DockerSandbox(engine, warm=False)
    with TemporaryDirectory() as folder:
        spec = SandboxSpec(BASE_IMAGE)
        mounted = SandboxSpec(BASE_IMAGE, workspace=WorkspaceMount(Path(folder)))
        ours: list[tuple[Series, Callable[[], Awaitable[None]]]] = [
            (Series("sandboxed-tools, cold", "yes"), functools.partial(call, cold, spec)),
            (Series("sandboxed-tools, warm", "yes"), functools.partial(call, warm, spec)),
            (
                Series("sandboxed-tools, warm, copy-on-write workspace", "yes"),
                functools.partial(call, warm, mounted),
            ),
        ]
        async with Toolbox(sandbox=warm) as toolbox:

            async def whole_path() -> None:
                result = await toolbox.call("Bash", {"command": TEXT})
                assert result.exec is not None
                assert result.exec.exit_code == EXIT

            ours.append((Series("sandboxed-tools, warm, box.call('Bash', …)", "yes"), whole_path))
            try:
                for one in (spec, mounted):
                    await warm.prewarm(one, 3)
                for _, plain in ways:
                    plain()
                for _, work in ours:
                    await work()
                for _ in range(rounds):
                    for series, plain in ways:
                        await anyio.to_thread.run_sync(timed, series, plain)
                        await anyio.sleep(PAUSE_S)
                    for series, work in ours:
                        await settled(warm, cold)
                        await timed_call(series, work)
            finally:
                await cold.aclose()
                await warm.aclose()
                usual.close()
    figures.series += [series for series, _ in (*ways, *ours)]


async def burst(figures: Figures, engine: Engine, *, size: int) -> None:
    """Calls one after the other, as fast as they go, while the shelf lasts."""
    box = DockerSandbox(engine)
    series = Series(f"sandboxed-tools, warm, burst of {size}", "yes")
    try:
        spec = SandboxSpec(BASE_IMAGE)
        await box.prewarm(spec, size)
        await settled(box)
        for _ in range(size):
            await timed_call(series, functools.partial(call, box, spec))
    finally:
        await box.aclose()
    figures.series.append(series)


async def throughput(figures: Figures, engine: Engine, *, workers: int, count: int) -> None:
    """Sustained calls, beside the bare loop with as many workers."""
    usual = Usual(engine, image_tag(BASE_IMAGE))

    def bare_loop() -> None:
        for _ in range(count // workers):
            usual.bare()

    try:
        begin = time.perf_counter()
        async with anyio.create_task_group() as group:
            for _ in range(workers):
                group.start_soon(anyio.to_thread.run_sync, bare_loop)
        figures.single["bare loop, containers/s"] = count / (time.perf_counter() - begin)
    finally:
        usual.close()
    box = DockerSandbox(engine)
    try:
        spec = SandboxSpec(BASE_IMAGE)
        await call(box, spec)

        async def worker() -> None:
            for _ in range(count // workers):
                await call(box, spec)

        begin = time.perf_counter()
        async with anyio.create_task_group() as group:
            for _ in range(workers):
                group.start_soon(worker)
        figures.single["sustained calls/s"] = count / (time.perf_counter() - begin)
    finally:
        await box.aclose()


async def flood(figures: Figures, engine: Engine) -> None:
    """One gibibyte of output: the rate, and what it costs the client in memory."""
    words = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "head"]
    begin = time.perf_counter()
    await anyio.run_process(
        [*words, image_tag(BASE_IMAGE), "-c", str(GIB), "/dev/zero"], stdout=subprocess.DEVNULL
    )
    figures.single["docker run > /dev/null, MiB/s"] = 1024 / (time.perf_counter() - begin)
    box = DockerSandbox(engine)
    try:
        limits = Limits.of(output_total_bytes="2g", cpus=2)
        spec = SandboxSpec(BASE_IMAGE, limits=limits)
        await box.prewarm(spec, 1)
        await call(box, spec)
        await settled(box)
        before = psutil.Process().memory_info().rss
        begin = time.perf_counter()
        result = await box.run(spec, Command(("head", "-c", str(GIB), "/dev/zero"), env=ENV))
        assert result.stdout_bytes == GIB, result
        figures.single["sandboxed-tools, MiB/s"] = 1024 / (time.perf_counter() - begin)
        grown = psutil.Process().memory_info().rss - before
        figures.single["client memory grown by, MiB"] = grown / (1 << 20)
    finally:
        await box.aclose()


async def idle_memory(figures: Figures, engine: Engine, *, count: int) -> None:
    """What a warm container that waits costs the machine: its process and its shim."""
    box = DockerSandbox(engine)
    try:
        before = _engine_memory()
        await box.prewarm(SandboxSpec(BASE_IMAGE), count)
        await anyio.sleep(0.5)
        grown = (_engine_memory() - before) / count
        figures.single["memory of an idle warm container, MiB"] = grown / (1 << 20)
    finally:
        await box.aclose()


def _engine_memory() -> int:
    total = 0
    for process in psutil.process_iter(["name"]):
        if (process.info["name"] or "").startswith(("containerd-shim", "launcher")):
            try:
                total += process.memory_full_info().pss
            except (psutil.Error, AttributeError):
                continue
    return total


# ---- showing ----


def shown(figures: Figures) -> None:
    console = Console(width=130)
    base = {series.name: series for series in figures.series}
    execs = base["docker exec, a container that is kept"].percentile(0.5)
    runs = base["docker run --rm"].percentile(0.5)
    table = Table(title=f"bash -c '{TEXT}', milliseconds")
    for name in ("way", "fresh", "p50", "p95", "p99", "× docker exec", "× docker run", "n"):
        table.add_column(name, justify="left" if name == "way" else "right")
    for series in figures.series:
        middle = series.percentile(0.5)
        table.add_row(
            series.name,
            series.fresh,
            *(f"{series.percentile(share):.1f}" for share in (0.5, 0.95, 0.99)),
            f"{execs / middle:.1f}",
            f"{runs / middle:.1f}",
            str(len(series.times_ms)),
        )
    console.print(table)
    others = Table(title="other figures")
    others.add_column("what")
    others.add_column("value", justify="right")
    for name, value in figures.single.items():
        others.add_row(name, f"{value:.1f}")
    console.print(others)


def svg(figures: Figures) -> str:
    """Bars of medians on a logarithmic scale."""
    import math

    rows = sorted(figures.series, key=lambda series: series.percentile(0.5))
    top = max(series.percentile(0.5) for series in rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="860" height="{40 + 26 * len(rows)}" '
        'font-family="sans-serif" font-size="13">',
        '<text x="10" y="20" font-weight="bold">Median of one call, ms (logarithmic)</text>',
    ]
    for number, series in enumerate(rows):
        y = 36 + 26 * number
        middle = series.percentile(0.5)
        width = 8 + 380 * math.log1p(middle) / math.log1p(top)
        colour = "#2a7f62" if "sandboxed-tools" in series.name else "#9aa5b1"
        parts.append(
            f'<text x="10" y="{y + 15}">{series.name}</text>'
            f'<rect x="350" y="{y}" width="{width:.0f}" height="20" fill="{colour}"/>'
            f'<text x="{356 + width:.0f}" y="{y + 15}">{middle:.1f}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def machine(engine: Engine) -> dict[str, str]:
    return {
        "processors": str(os.cpu_count()),
        "load": " ".join(f"{value:.1f}" for value in os.getloadavg()),
        "kernel": platform.release(),
        "engine": engine.version,
        "python": platform.python_version(),
        "command": TEXT,
    }


async def measure(figures: Figures, engine: Engine, *, rounds: int, quick: bool) -> None:
    await latencies(figures, engine, rounds=rounds)
    await burst(figures, engine, size=10 if quick else 30)
    if quick:
        return
    await throughput(figures, engine, workers=4, count=48)
    await flood(figures, engine)
    await idle_memory(figures, engine, count=8)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30, help="times that each way is measured")
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--svg", type=Path, help="write a chart here")
    parser.add_argument("--quick", action="store_true", help="latencies only")
    options = parser.parse_args()
    engine = find_engine()
    build_images(engine)
    figures = Figures(machine(engine))
    anyio.run(
        functools.partial(measure, figures, engine, rounds=options.rounds, quick=options.quick)
    )
    shown(figures)
    if options.json:
        values = asdict(figures)
        for series, written in zip(figures.series, values["series"], strict=True):
            written["median_ms"] = statistics.median(series.times_ms)
            written["p95_ms"] = series.percentile(0.95)
            written["p99_ms"] = series.percentile(0.99)
        options.json.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    if options.svg:
        options.svg.write_text(svg(figures), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
