"""What a run on the host costs over plain ``bash -c``: run with ``python benchmarks/host_run.py``.

Prints medians in milliseconds. The budget is 15 ms more than plain bash.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio

from sandboxed_tools.host import bash_command, gate_status, run_on_host
from sandboxed_tools.tool.limits import Limits

RUNS = 200
COMMANDS = (":", "ls -l /usr/bin | head -5 | wc -l", "cat /etc/passwd | sort | tail -3 > /dev/null")


def plain_ms(text: str) -> float:
    """Time of one ``bash -c`` with pipes, as a program without a gate would run it."""
    begun = time.perf_counter()
    subprocess.run(
        ["/usr/bin/bash", "--norc", "--noprofile", "-c", "--", text],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    return (time.perf_counter() - begun) * 1000


async def gated_ms(text: str, workspace: Path) -> float:
    """Time of one run behind the gate, from the call to the result."""
    begun = time.perf_counter()
    outcome = await run_on_host(bash_command(text), workspace=workspace, limits=Limits())
    assert outcome.result.ok, outcome
    return (time.perf_counter() - begun) * 1000


async def main() -> None:
    """Alternate both kinds of run, so that whatever else the machine does hits both."""
    status = gate_status()
    if not status.available:
        sys.exit("the gate is not available here: " + "; ".join(status.reasons))
    with tempfile.TemporaryDirectory() as name:
        for text in COMMANDS:
            plain, gated = [], []
            for _ in range(RUNS):
                plain.append(plain_ms(text))
                gated.append(await gated_ms(text, Path(name)))
            before, after = statistics.median(plain), statistics.median(gated)
            print(  # noqa: T201 - a benchmark prints
                f"plain {before:6.2f}  gated {after:6.2f}  extra {after - before:6.2f}"
                f"  ({after / before:.1f}x)  best extra {min(gated) - min(plain):6.2f}  {text}"
            )


if __name__ == "__main__":
    anyio.run(main)
