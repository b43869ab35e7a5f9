"""What a moved Python call and a run of code cost, beside a warm command and ``docker exec``.

Run with ``python benchmarks/moved_calls.py [N]``. Prints medians in milliseconds. The kinds take
turns, so that whatever else the machine does hits all of them; before each call one waits until a
container stands ready, because this is about calls and not about the engine's start rate.
"""

# ruff: noqa: T201 - a benchmark prints
from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from sandboxed_tools import Bash, Toolbox, ToolInput, build_tool
from sandboxed_tools.builtin import ExecuteCode
from sandboxed_tools.sandbox.docker import DockerSandbox, find_engine
from sandboxed_tools.sandbox.docker.images import image_tag

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 30
SETTLE_S = 1.0


class Words(ToolInput):
    text: str


def count_words(tool_input: Words, ctx: Any) -> int:
    return len(tool_input.text.split())


CountWords = build_tool(
    name="CountWords",
    description="Count words.",
    input_schema=Words,
    call=count_words,
    needs_sandbox=True,
    requires_confirmation=False,
    defaults=1,
)


async def timed(call: Callable[[], Awaitable[Any]]) -> float:
    begun = time.perf_counter()
    await call()
    return (time.perf_counter() - begun) * 1000


async def main() -> None:
    sandbox = DockerSandbox(find_engine())
    image = image_tag("sandboxed-tools/python")
    started = await anyio.run_process(
        ["docker", "run", "-d", "--rm", "--network", "none", image, "sleep", "3600"]
    )
    kept = started.stdout.decode().strip()

    async def exec_python() -> None:
        await anyio.run_process(["docker", "exec", kept, "python3", "-c", "print(1+1)"])

    try:
        async with Toolbox([Bash, CountWords, ExecuteCode], sandbox=sandbox) as box:
            kinds: dict[str, Callable[[], Awaitable[Any]]] = {
                "warm command": lambda: box.call(Bash, {"command": "echo hi; exit 3 >/dev/full"}),
                "moved call": lambda: box.call(CountWords, {"text": "three words here"}),
                "ExecuteCode 1+1": lambda: box.call(ExecuteCode, {"code": "1+1"}),
                "docker exec … python3 -c": exec_python,
            }
            times: dict[str, list[float]] = {name: [] for name in kinds}
            for call in kinds.values():
                await call()  # from now on containers are made ahead
            await anyio.sleep(6)
            for _ in range(RUNS):
                for name, call in kinds.items():
                    await anyio.sleep(SETTLE_S)
                    times[name].append(await timed(call))
        base = statistics.median(times["warm command"])
        for name, values in times.items():
            median = statistics.median(values)
            print(f"{name:26} median {median:7.1f}  best {min(values):7.1f}  {median - base:+7.1f}")
    finally:
        await sandbox.aclose()
        await anyio.run_process(["docker", "rm", "-f", kept], check=False)


if __name__ == "__main__":
    anyio.run(main)
