"""What a call came to: how it ended, what it printed, what it used."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "ChangeSummary",
    "ExecResult",
    "Limit",
    "Phases",
    "Status",
    "Stream",
    "Usage",
    "WorkspaceView",
]

Status = Literal[
    "exited",
    "signalled",
    "timeout",
    "idle_timeout",
    "oom",
    "output_limit",
    "disk_limit",
    "cancelled",
]
"""How a call ended. Never derived from text that the program printed."""

Limit = Literal[
    "memory", "pids", "tmp", "disk", "output", "output_kept", "wall", "idle", "file_size", "cpu"
]
"""A limit that was touched on the way, whether or not the call ended for it."""

Stream = Literal["stdout", "stderr"]

WorkspaceView = Literal["none", "read_only", "overlay", "copy", "host"]
"""How the call saw the workspace; ``host`` for a call that ran on the host itself."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What the call used. ``None`` where the kernel or the engine could not say."""

    cpu_s: float | None = None
    memory_peak_bytes: int | None = None
    pids_peak: int | None = None


@dataclass(frozen=True, slots=True)
class Phases:
    """Seconds spent waiting for a place, making the sandbox ready, and running the command."""

    queue_s: float = 0.0
    start_s: float = 0.0
    run_s: float = 0.0

    @property
    def total_s(self) -> float:
        return self.queue_s + self.start_s + self.run_s


@dataclass(frozen=True, slots=True)
class ChangeSummary:
    """What a call changed in its copy-on-write workspace, and what became of it.

    ``id`` names a held set; ``decision`` is what was done with it.
    """

    decision: Literal["discarded", "held", "applied", "none"] = "none"
    id: str | None = None
    added: int = 0
    modified: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The outcome of one command, wherever it ran.

    A command that fails is a result; an exception means that the sandbox itself failed.

    Attributes:
        status: how it ended.
        limits_hit: limits that were touched on the way (a child killed for memory, a full tmp).
        exit_code: 0 to 255 when it ended by itself (``exited``), else ``None``.
        signal: the signal number when it was ``signalled``.
        stdout, stderr: kept bytes: head and tail with a mark between them when cut.
        stdout_bytes, stderr_bytes: everything that was printed, kept or not.
        truncated: whether either stream was cut.
        usage, phases: what it used, and where the time went.
        image: digest of the image; ``None`` for a host run.
        view: how the workspace was seen.
        changes: what became of the changes.
        frames: what came beside the output (:mod:`sandboxed_tools.tool.frames`), by kind; foreign
            data, each of it.
        cwd: the directory in which the command ended, as the launcher reported it.
        trusted_report: whether usage and outcome come from a launcher of ours; values from a
            foreign image are for showing only, never for budgets.
    """

    status: Status
    exit_code: int | None = None
    signal: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    truncated: bool = False
    limits_hit: frozenset[Limit] = frozenset()
    usage: Usage = field(default_factory=Usage)
    phases: Phases = field(default_factory=Phases)
    image: str | None = None
    view: WorkspaceView = "none"
    changes: ChangeSummary | None = None
    cwd: str | None = None
    trusted_report: bool = True
    warnings: tuple[str, ...] = ()
    frames: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)

    @property
    def stdout_text(self) -> str:
        """``stdout`` as UTF-8, undecodable bytes replaced."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def stderr_text(self) -> str:
        """``stderr`` as UTF-8, undecodable bytes replaced."""
        return self.stderr.decode("utf-8", "replace")

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.status == "exited" and self.exit_code == 0
