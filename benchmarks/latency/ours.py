"""Our own ways: cold and warm, with and without a workspace, and the whole path of a tool call."""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio.to_thread
from benchmarks.latency import names
from benchmarks.latency.command import ARGV, ENV, EXIT, TEXT
from benchmarks.latency.figures import Series

from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.sandbox.contract import SandboxSpec, WorkspaceMount
from sandboxed_tools.sandbox.docker import DockerSandbox, Engine
from sandboxed_tools.sandbox.docker.images import BASE_IMAGE
from sandboxed_tools.tool import Command
from sandboxed_tools.workspace import WorkspaceViews

__all__ = ["Ours", "call", "our_ways", "settled", "timed_call", "whole_path"]

Work = Callable[[], Awaitable[None]]
PAUSE_S = 0.05
SETTLE_S = 30.0


async def call(box: DockerSandbox, spec: SandboxSpec) -> None:
    result = await box.run(spec, Command(ARGV, env=ENV))
    assert (result.exit_code, result.stdout) == (EXIT, b"hi\n"), result


async def changing_call(box: DockerSandbox, spec: SandboxSpec) -> None:
    """The same, and a new file whose change set is read and held after the call."""
    argv = ("bash", "-c", "echo hi | tee new; exit 3")
    result = await box.run(spec, Command(argv, env=ENV))
    assert result.exit_code == EXIT, result
    assert result.changes is not None
    assert result.changes.id is not None, result


async def whole_path(toolbox: Toolbox) -> None:
    result = await toolbox.call("Bash", {"command": TEXT})
    assert result.exec is not None
    assert result.exec.exit_code == EXIT


async def timed_call(series: Series, work: Work) -> None:
    begin = time.perf_counter()
    await work()
    series.times_ms.append((time.perf_counter() - begin) * 1000)


async def settled(*boxes: DockerSandbox) -> None:
    """Wait until the shelves are full and nothing is being made or removed."""

    def is_busy(box: DockerSandbox) -> bool:
        status = box.status()
        return bool(status.removing) or any(s.ready < s.target for s in status.shelves)

    def wait() -> None:
        deadline = time.monotonic() + SETTLE_S
        while any(is_busy(box) for box in boxes) and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(PAUSE_S)

    await anyio.to_thread.run_sync(wait)


class Ours:
    """The ways with their series, and the sandboxes behind them."""

    def __init__(self, warm: DockerSandbox, cold: DockerSandbox, toolbox: Toolbox) -> None:
        self.boxes = (warm, cold)
        self.toolbox = toolbox
        self.ways: list[tuple[Series, Work]] = []

    def add(self, name: str, work: Work) -> None:
        self.ways.append((Series(name, "yes", is_ours=True), work))


@asynccontextmanager
async def our_ways(engine: Engine) -> AsyncIterator[Ours]:
    """All of them, warmed up once; nothing is left at the end."""
    warm, cold = DockerSandbox(engine, views=WorkspaceViews()), DockerSandbox(engine, warm=False)
    try:
        with TemporaryDirectory() as folder:
            plain = SandboxSpec(BASE_IMAGE)
            place = WorkspaceMount(Path(folder))
            mounted = SandboxSpec(BASE_IMAGE, workspace=place)
            held = SandboxSpec(BASE_IMAGE, workspace=replace(place, changes="hold"))
            async with Toolbox(sandbox=warm) as toolbox:
                ours = Ours(warm, cold, toolbox)
                ours.add(names.COLD, functools.partial(call, cold, plain))
                ours.add(names.WARM, functools.partial(call, warm, plain))
                ours.add(names.WHOLE_PATH, functools.partial(whole_path, toolbox))
                ours.add(names.WARM_VIEW, functools.partial(call, warm, mounted))
                ours.add(names.WARM_CHANGES, functools.partial(changing_call, warm, held))
                for spec in (plain, mounted, held):
                    await warm.prewarm(spec, 3)
                for _, work in ours.ways:
                    await work()
                yield ours
    finally:
        await cold.aclose()
        await warm.aclose()
