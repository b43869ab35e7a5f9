"""What one call costs beside its work: validation, placement, permission with 200 rules, audit.

    python benchmarks/call_overhead.py

Prints medians in microseconds. The tool does nothing, so what remains is the library. The audit log
is a real one, in a temporary folder. The target is less than 300 µs a call.
"""

# ruff: noqa: T201 - a benchmark prints
from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from sandboxed_tools import Bash, Policy, Toolbox, ToolInput, build_tool
from sandboxed_tools.audit import AuditLog
from sandboxed_tools.sandbox.contract import Capabilities, OutputSink, SandboxSpec
from sandboxed_tools.tool import Command, ExecResult

CALLS = 2000
RULES = 200
COMMANDS = (
    "git status -s",
    "grep -rn 'def main' src | head -20",
    "make test && git diff --stat",
    "python -m pytest tests/unit -q 2>&1 | tail -5",
    "for f in a b c; do wc -l $f; done",
)


class NoSandbox:
    """Implements ``Sandbox``; every command ends at once."""

    async def run(
        self, spec: SandboxSpec, command: Command, on_output: OutputSink | None = None
    ) -> ExecResult:
        return ExecResult("exited", exit_code=0)

    async def capabilities(self) -> Capabilities:
        return Capabilities("none", {}, ())

    async def aclose(self) -> None:
        return


class TextInput(ToolInput):
    text: str


def policy(audit: str = "required", rules: int = RULES) -> Policy:
    third = rules // 3
    return Policy.model_validate(
        {
            "deny": [f"Bash(program{n} --option:*)" for n in range(third)],
            "ask": [f"Bash(git push origin{n}:*)" for n in range(third)],
            "allow": [f"Bash(make target{n})" for n in range(rules - 2 * third)],
            "audit": audit,
        }
    )


async def median_us(call: Callable[[int], Any]) -> float:
    for number in range(100):
        await call(number)
    gc.collect()
    times: list[int] = []
    for number in range(CALLS):
        start = time.perf_counter_ns()
        await call(number)
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1000


async def main() -> None:
    noop = build_tool(
        name="Noop",
        description="Does nothing.",
        input_schema=TextInput,
        call=_nothing,
        is_read_only=True,
        is_concurrency_safe=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        log = AuditLog(Path(folder))
        for title, stated in (
            (f"{RULES} rules, audit required", policy()),
            (f"{RULES} rules, no audit", policy("off")),
            ("no rules, no audit", policy("off", rules=0)),
        ):
            async with Toolbox(
                [noop, Bash], trusted=(noop,), sandbox=NoSandbox(), audit=log, policy=stated
            ) as box:

                async def python(number: int, box: Toolbox = box) -> None:
                    await box.call("Noop", {"text": str(number)})

                async def seen(number: int, box: Toolbox = box) -> None:
                    await box.call("Bash", {"command": COMMANDS[number % len(COMMANDS)]})

                async def fresh(number: int, box: Toolbox = box) -> None:
                    command = f"{COMMANDS[number % len(COMMANDS)]} && echo {number}"
                    await box.call("Bash", {"command": command})

                print(f"{title}:")
                print(f"  a Python tool         {await median_us(python):7.0f} µs")
                print(f"  Bash, a command again {await median_us(seen):7.0f} µs")
                print(f"  Bash, a new command   {await median_us(fresh):7.0f} µs")
        async with Toolbox([noop, Bash], trusted=(noop,), policy=policy(), audit=log) as box:
            await _steps_alone(box, log)
            await _through_one_executor(box)
        log.close()


async def _nothing(tool_input: TextInput, ctx: Any) -> str:
    return ""


async def _steps_alone(box: Toolbox, log: AuditLog) -> None:
    """Validation, placement and permission, and two audit rows of usual size; no work at all."""
    facts = {"tool": "Bash", "input": {"command": COMMANDS[2]}, "reasons": [["x", "y" * 80]] * 5}

    async def steps(number: int) -> None:
        box.explain("Bash", {"command": COMMANDS[number % len(COMMANDS)]})
        log.write("intent", "c", facts)
        log.write("outcome", "c", facts)

    print(f"the four steps without any work, {RULES} rules: {await median_us(steps):.0f} µs")


async def _through_one_executor(box: Toolbox) -> None:
    start = time.perf_counter()
    async with box.executor(side_by_side=64) as executor:
        for number in range(1000):
            executor.submit(str(number), "Noop", {"text": "x"})
        results = await executor.results()
    took_s = time.perf_counter() - start
    in_order = [result.id for result in results] == [str(number) for number in range(1000)]
    print(f"1,000 calls through one executor: {took_s:.2f} s, in order: {in_order}")


if __name__ == "__main__":
    anyio.run(main)
