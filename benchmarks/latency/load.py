"""Figures of many calls and of much output: bursts, the sustained rate, a flood; idle memory."""

from __future__ import annotations

import functools
import statistics
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import psutil
from benchmarks.latency import names
from benchmarks.latency.command import ENV
from benchmarks.latency.figures import Figures, Series
from benchmarks.latency.ours import call, settled, timed_call, whole_path
from benchmarks.latency.usual import Usual

from sandboxed_tools.builtin import Glob
from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker import DockerSandbox, Engine
from sandboxed_tools.sandbox.docker.images import BASE_IMAGE, image_tag
from sandboxed_tools.testing.direct import call_directly
from sandboxed_tools.tool import Command, Limits
from sandboxed_tools.tool.result import Stream
from sandboxed_tools.workspace import FileStateCache, WorkspaceRoot

__all__ = ["bursts", "endings", "flood", "host_call", "idle_memory", "sustained"]

GIB = 1 << 30
BURST = 20


async def bursts(figures: Figures, engine: Engine, *, count: int) -> None:
    """Calls one after the other, as fast as they go, while the shelf lasts."""
    series = Series(names.BURST, "yes", is_ours=True)
    box = DockerSandbox(engine)
    try:
        await box.prewarm(SandboxSpec(BASE_IMAGE, limits=Limits()), BURST + 1)
        async with Toolbox(sandbox=box) as toolbox:
            await whole_path(toolbox)
            for _ in range(count):
                await settled(box)
                for _ in range(BURST):
                    await timed_call(series, functools.partial(whole_path, toolbox))
    finally:
        await box.aclose()
    figures.series.append(series)


async def sustained(figures: Figures, engine: Engine, *, workers: int, count: int) -> None:
    """Calls without a pause, and the bare loop with as many workers, in turns; the best counts."""
    for _ in range(3):
        for name, rate in (
            (names.BARE_RATE, await _bare_rate(engine, workers=workers, count=count)),
            (names.OUR_RATE, await _our_rate(engine, workers=workers, count=count)),
        ):
            figures.single[name] = max(rate, figures.single.get(name, 0.0))


async def _bare_rate(engine: Engine, *, workers: int, count: int) -> float:
    usual = Usual(engine, image_tag(BASE_IMAGE))

    def loop() -> None:
        for _ in range(count // workers):
            usual.bare()

    try:
        begin = time.perf_counter()
        async with anyio.create_task_group() as group:
            for _ in range(workers):
                group.start_soon(anyio.to_thread.run_sync, loop)
        return count / (time.perf_counter() - begin)
    finally:
        usual.close()


async def _our_rate(engine: Engine, *, workers: int, count: int) -> float:
    box = DockerSandbox(engine)
    spec = SandboxSpec(BASE_IMAGE)

    async def worker() -> None:
        for _ in range(count // workers):
            await call(box, spec)

    try:
        await call(box, spec)  # the shelf is empty: nothing was made ahead
        begin = time.perf_counter()
        async with anyio.create_task_group() as group:
            for _ in range(workers):
                group.start_soon(worker)
        return count / (time.perf_counter() - begin)
    finally:
        await box.aclose()


async def flood(figures: Figures, engine: Engine) -> None:
    """One gibibyte of output: the rate, and what it costs the client in memory."""
    single = figures.single
    box = DockerSandbox(engine)
    try:
        spec = SandboxSpec(BASE_IMAGE, limits=Limits.of(output_total_bytes="2g", cpus=2))
        await box.prewarm(spec, 1)
        for _ in range(2):
            await settled(box)
            rate = await _docker_flood()
            single[names.FLOOD_DOCKER] = max(rate, single.get(names.FLOOD_DOCKER, 0.0))
            await settled(box)
            before = psutil.Process().memory_info().rss
            begin = time.perf_counter()
            result = await box.run(spec, Command(("head", "-c", str(GIB), "/dev/zero"), env=ENV))
            rate = 1024 / (time.perf_counter() - begin)
            assert result.stdout_bytes == GIB, result
            grown = (psutil.Process().memory_info().rss - before) / (1 << 20)
            single[names.FLOOD_OURS] = max(rate, single.get(names.FLOOD_OURS, 0.0))
            single[names.FLOOD_GROWTH] = max(grown, single.get(names.FLOOD_GROWTH, 0.0))
    finally:
        await box.aclose()


async def _docker_flood() -> float:
    words = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "head"]
    words += [image_tag(BASE_IMAGE), "-c", str(GIB), "/dev/zero"]
    begin = time.perf_counter()
    await anyio.run_process(words, stdout=subprocess.DEVNULL)
    return 1024 / (time.perf_counter() - begin)


RESISTING = {
    "deaf": "trap '' TERM INT HUP QUIT; echo up; while :; do sleep 600; done",
    "daemons": "for i in 1 2 3; do (setsid sleep 600 &); done; echo up; sleep 600",
    "spinners": "for i in $(seq 40); do (while :; do :; done) & done; echo up; wait",
    "fork bomb": "b() { b | b & }; echo up; b; while :; do sleep 1; done",
}


async def endings(figures: Figures, engine: Engine, *, rounds: int) -> None:
    """How long after its deadline, or after it was cancelled, a call that resists comes back."""
    late: list[float] = []
    cancelled: list[float] = []
    box = DockerSandbox(engine, warm=False)
    spec = SandboxSpec(BASE_IMAGE, limits=Limits(wall_s=1))
    try:
        for text in [text for text in RESISTING.values() for _ in range(rounds)]:
            command = Command(("bash", "-c", text), env=ENV)
            begin = time.perf_counter()
            result = await box.run(spec, command)
            phases = result.phases
            expected_s = phases.queue_s + phases.start_s + 1
            late.append((time.perf_counter() - begin - expected_s) * 1000)
            assert result.status == "timeout", result
            cancelled.append(await _until_back(box, SandboxSpec(BASE_IMAGE), command))
    finally:
        await box.aclose()
    figures.single[names.SLOWEST_TIMEOUT] = max(late)
    figures.single[names.SLOWEST_CANCEL] = max(cancelled)


async def _until_back(box: DockerSandbox, spec: SandboxSpec, command: Command) -> float:
    """Cancel a call when it has printed something: the milliseconds until it is back."""
    is_up, token = anyio.Event(), anyio.lowlevel.current_token()

    def seen(_stream: Stream, _data: bytes) -> None:
        anyio.from_thread.run_sync(is_up.set, token=token)

    async with anyio.create_task_group() as group:
        group.start_soon(box.run, spec, command, seen)
        await is_up.wait()
        begin = time.perf_counter()
        group.cancel_scope.cancel()
    return (time.perf_counter() - begin) * 1000


async def idle_memory(figures: Figures, engine: Engine, *, count: int) -> None:
    """What a warm container that waits costs the machine: its process and its shim."""
    box = DockerSandbox(engine)
    try:
        before = _engine_memory()
        await box.prewarm(SandboxSpec(BASE_IMAGE), count)
        await anyio.sleep(0.5)
        figures.single[names.IDLE_MEMORY] = (_engine_memory() - before) / count / (1 << 20)
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


async def host_call(figures: Figures, *, count: int) -> None:
    """A Glob on an empty folder through the Toolbox, in turn with the tool's own work alone."""
    whole: list[float] = []
    walk: list[float] = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        with WorkspaceRoot.open(folder) as root:
            async with Toolbox(workspace=folder) as toolbox:
                tools = (root, FileStateCache())
                for _ in range(count):
                    begin = time.perf_counter()
                    await toolbox.call("Glob", {"pattern": "*"})
                    whole.append((time.perf_counter() - begin) * 1e6)
                    begin = time.perf_counter()
                    await call_directly(Glob, {"pattern": "*"}, resources=tools, cwd=folder)
                    walk.append((time.perf_counter() - begin) * 1e6)
    figures.single[names.HOST_CALL] = statistics.median(whole)
    figures.single[names.HOST_WALK] = statistics.median(walk)
