"""The attacks of the demonstration: their limits, and how to tell that each was contained.

The attacks themselves are in ``examples/untrusted.sh``. What it prints is foreign text: it is
shown, and it can accuse the sandbox (``ESCAPED-…``), but nothing that it says proves that the
sandbox held.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.tool import ExecResult

__all__ = ["ATTACKS", "Attack", "script_path", "titles"]

KIB = 1024
MIB = 1024 * KIB

_TITLE = re.compile(r"^# ATTACK ([a-z-]+): (.+)$", re.MULTILINE)
_ERRNO = re.compile(r"^\[Errno \d+\] ")
_BLOCKED = re.compile(r"^blocked: ([^:\n]+): (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack: what it may use, what ends it, and how its end is described.

    ``fault`` says in words why the result is not that of a contained attack, or ``None``.
    ``beside``: another call is made while it runs, to see that the machine still serves.
    """

    id: str
    stopped_by: str
    fault: Callable[[ExecResult], str | None]
    happened: Callable[[ExecResult], str]
    limits: Mapping[str, object] = field(default_factory=dict)
    beside: bool = False


def script_path() -> Path:
    """The hostile script, in a wheel and in a checkout alike.

    Raises:
        ConfigurationError: this installation does not carry it.
    """
    packaged = Path(str(resources.files("sandboxed_tools"))) / "examples" / "untrusted.sh"
    checkout = Path(__file__).resolve().parents[3] / "examples" / "untrusted.sh"
    for path in (packaged, checkout):
        if path.is_file():
            return path
    raise ConfigurationError("this installation does not carry examples/untrusted.sh")


def titles(script: str) -> dict[str, str]:
    """The attacks that the script says it has, in its order, each with its title."""
    return dict(_TITLE.findall(script))


def _exits_with(code: int) -> Callable[[ExecResult], str | None]:
    def fault(result: ExecResult) -> str | None:
        if result.status == "exited" and result.exit_code == code:
            return None
        return f"ended as {result.status} {result.exit_code}, expected exit code {code}"

    return fault


def _tries_in_vain(result: ExecResult) -> str | None:
    if not _BLOCKED.search(result.stdout_text):
        return "nothing was tried"
    return _exits_with(0)(result)


def _ends_as(*statuses: str) -> Callable[[ExecResult], str | None]:
    def fault(result: ExecResult) -> str | None:
        if result.status in statuses:
            return None
        return f"ended as {result.status}, expected {' or '.join(statuses)}"

    return fault


def _touches_processes(result: ExecResult) -> str | None:
    if "pids" not in result.limits_hit:
        return "the limit on processes was never touched"
    return _ends_as("timeout")(result)


def _tries(result: ExecResult) -> str:
    blocked = _BLOCKED.findall(result.stdout_text)
    reasons = Counter(_ERRNO.sub("", why).strip() for _, why in blocked)
    usual = reasons.most_common(1)[0][0].lower() if reasons else "nothing"
    return f"{len(blocked)} ways, all in vain: {usual}"


def _last_line(result: ExecResult) -> str:
    lines = result.stdout_text.strip().splitlines()
    return lines[-1] if lines else "nothing was printed"


def _size(count: int | None) -> str:
    return "an unknown amount" if count is None else f"{count / MIB:.0f} MiB"


ATTACKS: tuple[Attack, ...] = (
    Attack("read-host", "nothing of the host is mounted", _tries_in_vain, _tries),
    Attack("steal-secrets", "exact environment, hidden PID 1", _tries_in_vain, _tries),
    Attack("network", "no network, seccomp", _tries_in_vain, _tries),
    Attack("become-root", "no capabilities, no new privileges", _tries_in_vain, _tries),
    Attack(
        "fork-bomb",
        "64 processes, 3 s",
        _touches_processes,
        lambda _: "held at 64, all killed",
        limits={"pids": 64, "wall_s": 3},
        beside=True,
    ),
    Attack(
        "eat-memory",
        "256 MiB of memory",
        _ends_as("oom"),
        lambda result: f"killed at {_size(result.usage.memory_peak_bytes)}",
        limits={"memory_bytes": 256 * MIB},
    ),
    Attack(
        "fill-disk",
        "128 MiB of changes",
        _ends_as("disk_limit"),
        lambda result: "killed while writing, all of it gone",
        limits={"changes_bytes": 128 * MIB, "tmp_bytes": 32 * MIB},
    ),
    Attack(
        "flood-output",
        "32 MiB of output",
        _ends_as("output_limit"),
        lambda result: (
            f"killed at {_size(result.stdout_bytes)}, {len(result.stdout) // KIB} KiB kept"
        ),
        limits={"output_total_bytes": 32 * MIB, "output_kept_bytes": 256 * KIB},
    ),
    Attack(
        "ignore-signals",
        "2 s of time, then SIGKILL",
        _ends_as("timeout"),
        lambda result: f"deaf to 29 signals, killed after {result.phases.run_s:.1f} s",
        limits={"wall_s": 2},
    ),
    Attack(
        "delete-workspace",
        "copy-on-write view",
        _exits_with(0),
        lambda result: f"{_last_line(result)} of its own view",
    ),
    Attack("follow-links", "links lead nowhere", _tries_in_vain, _tries),
    Attack(
        "leave-daemon",
        "PID 1 ends with the command",
        _exits_with(0),
        lambda result: f"{_last_line(result)}, none alive after it",
    ),
    Attack(
        "forge-result",
        "the kernel reports the end",
        _exits_with(7),
        lambda result: f"claimed exit code 0, reported is {result.exit_code}",
    ),
)
