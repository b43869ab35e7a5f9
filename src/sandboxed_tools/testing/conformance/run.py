"""Putting a sandbox through the checks, and what came of it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import anyio

from sandboxed_tools.sandbox.contract import Sandbox
from sandboxed_tools.testing.conformance import (
    confinement,
    endings,
    isolation,
    limits,
    output,
    process,
    stdin,
    workspaces,
)
from sandboxed_tools.testing.conformance.bench import Bench, CheckFailed
from sandboxed_tools.testing.conformance.check import Check
from sandboxed_tools.testing.conformance.differences import Difference
from sandboxed_tools.workspace.remove import remove_tree

__all__ = ["ALL_CHECKS", "CheckResult", "Report", "run_conformance"]

ALL_CHECKS: tuple[Check, ...] = tuple(
    check
    for module in (
        endings,
        process,
        stdin,
        output,
        limits,
        isolation,
        confinement,
        workspaces,
    )
    for check in module.SUITE.checks
)

Outcome = Literal["passed", "failed", "known_difference", "stale_difference"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check came to.

    ``known_difference`` failed and was declared; ``stale_difference`` was declared and passed, so
    that the declaration should go. Where the declaration says that the check holds in some places,
    passing is ``passed``, and ``detail`` says so.
    """

    id: str
    claim: str
    outcome: Outcome
    detail: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """The results in the order of the checks."""

    results: tuple[CheckResult, ...]

    @property
    def ok(self) -> bool:
        return all(result.outcome in ("passed", "known_difference") for result in self.results)

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "results": [asdict(result) for result in self.results]}


async def run_conformance(
    sandbox: Sandbox,
    *,
    image: str,
    runtime: str | None = None,
    known_differences: Mapping[str, str | Difference] | None = None,
    only: Collection[str] | None = None,
    at_once: int = 4,
    patience: float = 1.0,
    on_result: Callable[[CheckResult], None] | None = None,
) -> Report:
    """Put ``sandbox`` through the checks and report what held.

    Args:
        sandbox: the backend under test; it is used, and not closed.
        image: an image with bash, coreutils, procps and python3.
        runtime: the engine's runtime; its default when omitted.
        known_differences: check ids that this backend is known not to satisfy, each with the
            reason; they run all the same. A :class:`Difference` can say where they hold.
        only: ids to run; all of them by default.
        at_once: how many checks run at the same time.
        patience: how many times longer everything may take, on a slow or emulated machine.
        on_result: told each result as it comes.

    Raises:
        ValueError: an id that no check has.
    """
    declared = {
        check_id: why if isinstance(why, Difference) else Difference(why)
        for check_id, why in (known_differences or {}).items()
    }
    known_ids = {check.id for check in ALL_CHECKS}
    if unknown := (declared.keys() | set(only or ())) - known_ids:
        raise ValueError(f"no such check: {', '.join(sorted(unknown))}")
    chosen = [check for check in ALL_CHECKS if only is None or check.id in only]
    results: dict[str, CheckResult] = {}

    async def conduct(check: Check) -> None:
        results[check.id] = result = await _conduct(
            check,
            sandbox=sandbox,
            image=image,
            runtime=runtime,
            patience=patience,
            declared=declared.get(check.id),
        )
        if on_result is not None:
            on_result(result)

    places = anyio.CapacityLimiter(at_once)

    async def conduct_in_turn(check: Check) -> None:
        async with places:
            await conduct(check)

    async with anyio.create_task_group() as group:
        for check in chosen:
            if not check.alone:
                group.start_soon(conduct_in_turn, check)
    for check in chosen:
        if check.alone:
            await conduct(check)
    return Report(tuple(results[check.id] for check in chosen))


async def _conduct(
    check: Check,
    *,
    sandbox: Sandbox,
    image: str,
    runtime: str | None,
    patience: float,
    declared: Difference | None,
) -> CheckResult:
    started = time.monotonic()
    folder = _scratch_folder()
    detail = ""
    try:
        with anyio.fail_after(check.deadline_s * patience):
            bench = Bench(
                sandbox=sandbox, image=image, folder=folder, runtime=runtime, patience=patience
            )
            await check.prove(bench)
    except CheckFailed as failure:
        detail = str(failure) or "failed"
    except TimeoutError:
        detail = f"not done after {check.deadline_s * patience:.0f} s"
    except Exception as error:  # noqa: BLE001 - whatever a backend raises is this check's failure
        detail = f"{type(error).__name__}: {error}"
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(remove_tree, folder)
    outcome, told = _judged(detail, declared)
    return CheckResult(check.id, check.claim, outcome, told, time.monotonic() - started)


def _judged(failure: str, declared: Difference | None) -> tuple[Outcome, str]:
    """What a check came to, given how it failed, if it did, and what is said of it beforehand."""
    if declared is None:
        return ("failed" if failure else "passed"), failure
    if failure:
        return "known_difference", f"{declared.reason} ({failure})"
    if declared.holds_where:
        return "passed", f"holds where {declared.holds_where}; elsewhere: {declared.reason}"
    return "stale_difference", declared.reason


def _scratch_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="conformance-"))
    # The command's user is not ours, and must reach the workspaces below.
    folder.chmod(0o755)
    return folder
