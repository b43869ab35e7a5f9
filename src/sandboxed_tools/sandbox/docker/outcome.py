"""How a call ended, from facts alone: the launcher's report, the engine's state, our own clocks.

Nothing that the command printed, and no exit code that it chose, is looked at for anything else
than being shown: 137 and the word "Killed" are what any program can produce.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace

from sandboxed_tools.errors import EngineFault
from sandboxed_tools.sandbox.docker.protocol import Report
from sandboxed_tools.sandbox.docker.pump import Ending
from sandboxed_tools.tool.result import Limit, Status, Usage

__all__ = ["EngineState", "Outcome", "classify"]

THROTTLED_S = 0.1
"""Waiting for the processor quota for less than this is not worth naming as a limit."""

LAUNCHER_FAILED = 125
"""What the launcher exits with when it gives up."""

_NO_REPORT = "the launcher was ended from outside, so there are no figures"
_NO_ANSWER = "the launcher did not answer in time, so there are no figures"

_OURS: dict[str, tuple[Status, Limit | None]] = {
    "wall": ("timeout", "wall"),
    "idle": ("idle_timeout", "idle"),
    "output": ("output_limit", "output"),
    "disk": ("disk_limit", "disk"),
    "stopped": ("cancelled", None),
}


@dataclass(frozen=True, slots=True)
class EngineState:
    """What the engine says about a container whose stream has ended without a report.

    ``was_killed``: somebody had the engine kill it.
    """

    running: bool
    exit_code: int | None
    oom_killed: bool
    was_killed: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """Status and figures of one call."""

    status: Status
    exit_code: int | None
    signal: int | None
    limits_hit: frozenset[Limit]
    usage: Usage
    cwd: str | None
    warnings: tuple[str, ...] = ()


def classify(
    ending: Ending,
    report: Report | None,
    state: EngineState | None,
    *,
    has_launcher: bool = True,
) -> Outcome:
    """Name the outcome.

    ``has_launcher`` says whether a report was to be expected. Where the command is process 1 itself
    its absence is no event.

    Raises:
        EngineFault: neither the launcher nor the engine can say how the call ended.
    """
    hit = _limits_hit(report)
    usage = Usage(
        cpu_s=report.cpu_s if report else None,
        memory_peak_bytes=report.memory_peak_bytes if report else None,
        pids_peak=report.pids_peak if report else None,
    )
    cwd = report.cwd if report else None
    # A deadline that fell while the command was ending by itself was not what ended it; too much
    # output is too much in any case.
    if ending in _OURS and not (report and report.why == "exit" and ending != "output"):
        status, limit = _OURS[ending]
        hit |= {limit} if limit else set()
        warnings = (_NO_ANSWER,) if has_launcher and report is None else ()
        return Outcome(status, None, None, frozenset(hit), usage, cwd, warnings)
    if report is not None:
        outcome = _from_report(report, hit, usage)
        if ending == "lost":
            warning = "the connection ended early: the end of the output may be missing"
            return replace(outcome, warnings=(warning,))
        return outcome
    outcome = _from_state(state, has_launcher=has_launcher)
    return replace(outcome, warnings=(_NO_REPORT,)) if has_launcher else outcome


def _limits_hit(report: Report | None) -> set[Limit]:
    hit: set[Limit] = set()
    if report is None:
        return hit
    if report.oom_kills:
        hit.add("memory")
    if report.pids_refused:
        hit.add("pids")
    if report.tmp_full:
        hit.add("tmp")
    if report.throttled_s is not None and report.throttled_s >= THROTTLED_S:
        hit.add("cpu")
    return hit


def _from_report(report: Report, hit: set[Limit], usage: Usage) -> Outcome:
    if report.why in ("deadline", "heartbeat"):
        # Its own clock, for a client that had stopped: stopped clients do not keep deadlines.
        return Outcome("timeout", None, None, frozenset(hit | {"wall"}), usage, report.cwd)
    if report.why != "exit":
        raise EngineFault(
            "the sandbox ended the call for a reason of its own",
            operator_detail=f"launcher: {report.why}",
        )
    if report.exit_code is not None:
        return Outcome("exited", report.exit_code, None, frozenset(hit), usage, report.cwd)
    status: Status = "signalled"
    if report.signal == signal.SIGKILL and report.oom_kills:
        status = "oom"
    elif report.signal == signal.SIGXFSZ:
        # Sent by the kernel to a writer beyond RLIMIT_FSIZE (setrlimit(2)).
        status = "disk_limit"
        hit.add("file_size")
    shown = report.signal if status == "signalled" else None
    return Outcome(status, None, shown, frozenset(hit), usage, report.cwd)


def _from_state(state: EngineState | None, *, has_launcher: bool) -> Outcome:
    if (
        state is None
        or state.running
        or state.exit_code is None
        or (has_launcher and _is_the_launchers_own(state))
    ):
        raise EngineFault(
            "the connection to the container engine was lost in the middle of the call; the call "
            "was ended, and its outcome is unknown",
            operator_detail=repr(state),
        )
    none = Usage()
    if state.oom_killed:
        hit: frozenset[Limit] = frozenset({"memory"})
        return Outcome("oom", None, None, hit, none, None)
    if state.exit_code > 128:
        number = state.exit_code - 128
        return Outcome("signalled", None, number, frozenset(), none, None)
    return Outcome("exited", state.exit_code, None, frozenset(), none, None)


def _is_the_launchers_own(state: EngineState) -> bool:
    """Whether this may be how the launcher ends a call of which nobody listens to the end: it has
    killed the command by then, as a lost lease asks of it, or has failed itself."""
    if state.oom_killed or state.was_killed:
        return False
    return state.exit_code in (LAUNCHER_FAILED, 128 + signal.SIGKILL)
