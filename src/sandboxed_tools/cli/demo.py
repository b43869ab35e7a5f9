"""``demo``: a hostile script, put through the real path, and what became of it and of the host."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable
from dataclasses import asdict

import anyio
import anyio.to_thread
import typer

from sandboxed_tools.cli import exit_codes, options
from sandboxed_tools.cli.console import errors_end_the_program, print_json
from sandboxed_tools.cli.demo_attacks import ATTACKS, Attack, script_path, titles
from sandboxed_tools.cli.demo_host import Bait, set_bait
from sandboxed_tools.cli.demo_view import Outcome, Verdict, show
from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.runtime.default_sandbox import open_default_sandbox
from sandboxed_tools.sandbox.contract import Sandbox
from sandboxed_tools.tool import ExecResult, Limits

__all__ = ["demo"]

WALL_S = 30.0
LEFTOVER_DEADLINE_S = 10.0
_ESCAPED = re.compile(r"^ESCAPED-.*$", re.MULTILINE)


def demo(as_json: options.Json = False) -> None:
    """Run a hostile script and watch it do no harm.

    Ends with 1 when anything was not contained.
    """
    with errors_end_the_program(as_json=as_json):
        script = script_path()
        with set_bait(script) as bait:
            known = titles(script.read_text(encoding="utf-8"))

            def run(on_start: Callable[[str], None], on_end: Callable[[Outcome], None]) -> Verdict:
                return anyio.run(_run, bait, known, on_start, on_end)

            if as_json:
                verdict = run(lambda _: None, lambda _: None)
            else:
                verdict = show(run, bait, total=len(ATTACKS))
    if as_json:
        found = asdict(verdict)
        print_json(
            {
                "contained": verdict.is_contained,
                "attacks": found["outcomes"],
                "host": found["host"],
                "left_on_engine": found["left_on_engine"],
            }
        )
    if not verdict.is_contained:
        raise typer.Exit(exit_codes.FAILED)


async def _run(
    bait: Bait,
    known: dict[str, str],
    on_start: Callable[[str], None],
    on_end: Callable[[Outcome], None],
) -> Verdict:
    if not bait.is_served():
        raise RuntimeError("the bait does not work, so nothing that follows would prove anything")
    outcomes = []
    sandbox = await anyio.to_thread.run_sync(open_default_sandbox)
    try:
        for attack in ATTACKS:
            on_start(known[attack.id])
            outcomes.append(await _attack(attack, known[attack.id], bait, sandbox))
            on_end(outcomes[-1])
    finally:
        with anyio.CancelScope(shield=True):
            await sandbox.aclose()
    left = await anyio.to_thread.run_sync(_left_on_engine)
    return Verdict(tuple(outcomes), await anyio.to_thread.run_sync(bait.report), left)


async def _attack(attack: Attack, title: str, bait: Bait, sandbox: Sandbox) -> Outcome:
    command = shlex.join(("bash", "untrusted.sh", attack.id, str(bait.canary), str(bait.port)))
    limits = Limits.of(**{"wall_s": WALL_S, **attack.limits})
    started = time.monotonic()
    async with Toolbox(
        sandbox=sandbox, workspace=bait.workspace, limits=limits, changes="discard"
    ) as box:
        beside: list[float] = []
        async with anyio.create_task_group() as group:
            if attack.beside:
                group.start_soon(_call_beside, box, beside)
            done = await box.call("Bash", {"command": command})
    seconds = time.monotonic() - started
    result = done.exec
    if result is None or done.placement.where != "container":
        return Outcome(attack.id, title, "ran on the host", "", seconds, "it ran on the host")
    happened = attack.happened(result)
    if attack.beside:
        happened += f"; a call beside it: {1000 * sum(beside):.0f} ms"
    return Outcome(
        attack.id,
        title,
        happened,
        attack.stopped_by,
        seconds,
        _fault(attack, result, bait, beside),
    )


async def _call_beside(box: Toolbox, took_s: list[float]) -> None:
    await anyio.sleep(1.0)
    started = time.monotonic()
    done = await box.call("Bash", {"command": "echo served > f; cat f"})
    if done.exec is not None and done.exec.stdout == b"served\n":
        took_s.append(time.monotonic() - started)


def _fault(attack: Attack, result: ExecResult, bait: Bait, beside: list[float]) -> str | None:
    """How the attack was not contained, by its own boast, by its end, or by what it printed."""
    if boast := _ESCAPED.search(result.stdout_text):
        return boast.group()
    if bait.token in result.stdout_text + result.stderr_text:
        return "it printed a secret of the host"
    if attack.beside and not beside:
        return "a call beside it was not served"
    return attack.fault(result)


def _left_on_engine() -> tuple[str, ...]:
    """What this process still has on the engine, once removals that are under way are done."""
    from sandboxed_tools.sandbox.docker.cleanup import ps
    from sandboxed_tools.sandbox.docker.engine import find_engine
    from sandboxed_tools.sandbox.docker.owner import Owner

    me = Owner.current()
    api = find_engine().api()
    try:
        deadline = time.monotonic() + LEFTOVER_DEADLINE_S
        while True:
            left = tuple(
                f"{item.type} {item.name or item.id[:12]}"
                for item in ps(api)
                if item.ownership is not None and item.ownership.owner == me
            )
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.1)
    finally:
        api.close()
