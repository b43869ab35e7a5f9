"""What the Model Context Protocol costs: a warm Bash call, a list of tools, the start of a server.

    python benchmarks/mcp_round_trip.py

Prints medians in milliseconds. The calls are the same ones, made by the library in one process and
by the SDK's own client over each transport, in turns. Targets: a call at most 10 ms over the
library's, a list under 5 ms, from the start of the server to its first answer under 1.5 s.

Beside it stands the processor time that a call cost in the client and the server together, which
says more where others use the machine: a promise that it breaks cannot hold on any clock.
"""

# ruff: noqa: T201 - a benchmark prints
from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from sandboxed_tools import Toolbox
from sandboxed_tools.mcp import HttpAddress, ServerOptions, Sessions, build_server, serve_http

CALLS = 30
LISTS = 200
STARTS = 5
PAUSE_S = 0.3  # below the engine's own start rate, so that a warm container is there
COMMAND = {
    "command": "touch /tmp/made"
}  # for a container: a call that only reads stays on the host
PROGRAM = (sys.executable, "-m", "sandboxed_tools.cli.main", "mcp", "--changes", "discard")


async def timed_ms(work: Callable[[], Awaitable[Any]]) -> float:
    start = time.perf_counter_ns()
    await work()
    return (time.perf_counter_ns() - start) / 1e6


def processor_ms() -> float:
    """What the threads of this process and its children have used, to the nanosecond."""
    me = psutil.Process()
    used = 0
    for process in (me, *me.children(recursive=True)):
        for file in Path(f"/proc/{process.pid}/task").glob("*/schedstat"):
            with suppress(OSError):  # a thread that has ended meanwhile
                used += int(file.read_text().split()[0])
    return used / 1e6


async def starts(server: StdioServerParameters) -> float:
    times: list[float] = []
    for _ in range(STARTS):
        start = time.perf_counter()
        async with Client(server, mode="legacy") as client:
            await client.list_tools()
            times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = StdioServerParameters(command=PROGRAM[0], args=[*PROGRAM[1:], "-w", folder])
        print(f"start to the first list        {await starts(server):8.1f} ms")
        options = ServerOptions(workspaces=(Path(folder),), changes="discard")
        address = HttpAddress.bind()
        async with AsyncExitStack() as stack:
            box = await stack.enter_async_context(Toolbox(workspace=folder, changes="discard"))
            stdio = await stack.enter_async_context(Client(server, mode="legacy"))
            sessions = await stack.enter_async_context(Sessions(options))
            tasks = await stack.enter_async_context(anyio.create_task_group())
            tasks.start_soon(serve_http, build_server(sessions), sessions, address)
            token = {"Authorization": f"Bearer {address.token}"}
            opened = await stack.enter_async_context(create_mcp_http_client(token))
            transport = streamable_http_client(address.url, http_client=opened)
            http = await stack.enter_async_context(Client(transport, mode="legacy"))
            await compare(box, stdio, http)
            tasks.cancel_scope.cancel()


async def compare(box: Toolbox, stdio: Client, http: Client) -> None:
    ways: dict[str, Callable[[], Awaitable[Any]]] = {
        "library": lambda: box.call("Bash", COMMAND),
        "stdio": lambda: stdio.call_tool("Bash", COMMAND),
        "HTTP": lambda: http.call_tool("Bash", COMMAND),
    }
    assert (await box.call("Bash", COMMAND)).placement.where == "container"
    times: dict[str, list[float]] = {way: [] for way in ways}
    used: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(CALLS + 3):
        for way, call in ways.items():
            await anyio.sleep(PAUSE_S)
            before = processor_ms()
            took = await timed_ms(call)
            if number >= 3:
                times[way].append(took)
                used[way].append(processor_ms() - before)
    for way in ways:
        print(f"warm Bash call, {way:8}       {over(times, way)}    processor {over(used, way)}")
    for way, client in (("stdio", stdio), ("HTTP", http)):
        lists = [await timed_ms(client.list_tools) for _ in range(LISTS)]
        print(f"list of tools, {way:8}        {statistics.median(lists):8.1f} ms")


def over(measured: dict[str, list[float]], way: str) -> str:
    """The median, and how far it is above the library's."""
    median = statistics.median(measured[way])
    return f"{median:6.1f} ms ({median - statistics.median(measured['library']):+.1f})"


if __name__ == "__main__":
    anyio.run(main)
