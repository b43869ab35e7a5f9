"""``demo``: a hostile script, put through the real path, and what became of it and of the host."""

from __future__ import annotations

import contextlib
import re
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import anyio
import anyio.to_thread
import typer
from rich import box
from rich.console import Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from sandboxed_tools.cli import exit_codes, options
from sandboxed_tools.cli.console import errors_end_the_program, out, print_json, safe, stderr
from sandboxed_tools.cli.demo_attacks import ATTACKS, Attack, script_path, titles
from sandboxed_tools.cli.demo_host import Bait, HostReport, set_bait
from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.runtime.default_sandbox import open_default_sandbox
from sandboxed_tools.sandbox.contract import Sandbox
from sandboxed_tools.tool import ExecResult, Limits

__all__ = ["demo"]

WALL_S = 30.0
LEFTOVER_DEADLINE_S = 10.0
_ESCAPED = re.compile(r"^ESCAPED-.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attack came to. ``fault`` says how it was not contained, or is ``None``."""

    id: str
    title: str
    happened: str
    stopped_by: str
    seconds: float
    fault: str | None

    @property
    def is_contained(self) -> bool:
        return self.fault is None


@dataclass(frozen=True, slots=True)
class Verdict:
    """All outcomes, and the state of the host and of the engine afterwards."""

    outcomes: tuple[Outcome, ...]
    host: HostReport
    left_on_engine: tuple[str, ...]

    @property
    def is_contained(self) -> bool:
        return (
            all(outcome.is_contained for outcome in self.outcomes)
            and self.host.is_untouched
            and not self.left_on_engine
        )


def demo(as_json: options.Json = False) -> None:
    """Run a hostile script and watch it do no harm.

    Ends with 1 when anything was not contained.
    """
    with errors_end_the_program(as_json=as_json):
        script = script_path()
        with set_bait(script) as bait:
            known = titles(script.read_text(encoding="utf-8"))
            if as_json:
                verdict = anyio.run(_run, bait, known, lambda _: None, lambda _: None)
            else:
                verdict = _shown(bait, known)
    if as_json:
        print_json({"contained": verdict.is_contained, **_as_object(verdict)})
    if not verdict.is_contained:
        raise typer.Exit(exit_codes.FAILED)


# ---- running


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
    async with Toolbox(sandbox=sandbox, workspace=bait.workspace, limits=limits) as box:
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


# ---- showing


def _shown(bait: Bait, known: dict[str, str]) -> Verdict:
    console = out()
    outcomes: list[Outcome] = []
    if not console.is_terminal:
        verdict = anyio.run(
            _run,
            bait,
            known,
            lambda title: stderr().print(f"trying to {title} …", style="dim"),
            outcomes.append,
        )
        console.print(_table(outcomes, plain=True))
        console.print(_summary(verdict, plain=True))
        return verdict
    console.print(_headline(bait))
    with _live(outcomes, len(ATTACKS)) as (started, ended):
        verdict = anyio.run(_run, bait, known, started, ended)
    console.print(_summary(verdict, plain=False))
    return verdict


@contextlib.contextmanager
def _live(
    outcomes: list[Outcome], total: int
) -> Iterator[tuple[Callable[[str], None], Callable[[Outcome], None]]]:
    with Live(console=out(), refresh_per_second=12, transient=False) as live:

        def started(title: str) -> None:
            busy = Spinner("dots", Text(f" {len(outcomes) + 1}/{total}  {title} …", style="dim"))
            live.update(Group(_table(outcomes, plain=False), Padding(busy, (0, 2))))

        def ended(outcome: Outcome) -> None:
            outcomes.append(outcome)
            live.update(_table(outcomes, plain=False), refresh=True)

        yield started, ended


def _headline(bait: Bait) -> RenderableType:
    text = Text.assemble(
        ("A hostile script, ", "bold"),
        (f"{len(ATTACKS)} attacks", "bold red"),
        (", each through the real path: ", "bold"),
        ("Toolbox → Bash → placement → container", "bold cyan"),
        "\n",
        (f"bait: {bait.workspace}, a secret beside it, port {bait.port}", "dim"),
    )
    return Padding(text, (1, 2))


def _table(outcomes: list[Outcome], *, plain: bool) -> Table:
    table = Table(
        box=None if plain else box.ROUNDED,
        border_style="dim",
        header_style="" if plain else "bold",
        pad_edge=not plain,
    )
    table.add_column("" if plain else " ", no_wrap=True)
    table.add_column("the attack tried to", no_wrap=plain)
    table.add_column("what happened", no_wrap=plain)
    table.add_column("stopped by", no_wrap=plain)
    table.add_column("time", justify="right", no_wrap=True)
    for outcome in outcomes:
        mark = safe("✓", "bold green") if outcome.is_contained else safe("✗", "bold red")
        if plain:
            mark = safe("contained" if outcome.is_contained else "ESCAPED")
        table.add_row(
            mark,
            safe(outcome.title, one_line=True),
            safe(outcome.fault or outcome.happened, "" if plain else "dim", one_line=True),
            safe(outcome.stopped_by, "" if plain else "yellow", one_line=True),
            f"{outcome.seconds:.1f} s",
        )
    return table


def _summary(verdict: Verdict, *, plain: bool) -> RenderableType:
    host = verdict.host
    facts = (
        (
            not host.changed,
            f"{host.files} files of the host unchanged: content, mode, owner, time",
            f"changed on the host: {', '.join(host.changed)}",
        ),
        (
            not host.connections,
            "no connection reached the host",
            f"{host.connections} connections reached the host",
        ),
        (
            not host.daemons,
            "no process left behind",
            f"processes left behind: {', '.join(map(str, host.daemons))}",
        ),
        (
            not verdict.left_on_engine,
            "no container or volume left behind",
            f"left on the engine: {', '.join(verdict.left_on_engine)}",
        ),
    )
    lines = [
        safe("✓ " if good else "✗ ", "bold green" if good else "bold red")
        + safe(yes if good else no, one_line=True)
        for good, yes, no in facts
    ]
    contained = sum(outcome.is_contained for outcome in verdict.outcomes)
    seconds = sum(outcome.seconds for outcome in verdict.outcomes)
    closing = f"{contained} of {len(verdict.outcomes)} attacks contained in {seconds:.0f} s."
    style = "bold green" if verdict.is_contained else "bold red"
    summary = Group(Text(), *lines, Text(), safe(closing, style))
    return summary if plain else Padding(summary, (0, 2, 1, 2))


def _as_object(verdict: Verdict) -> dict[str, object]:
    return {
        "attacks": list(verdict.outcomes),
        "host": verdict.host,
        "left_on_engine": list(verdict.left_on_engine),
    }
