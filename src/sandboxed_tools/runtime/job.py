"""One submitted call, and the last event that it ends with."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import anyio

from sandboxed_tools.errors import CallCancelled, SandboxedToolsError, SandboxUnavailable
from sandboxed_tools.runtime.events import Finished, LastEvent, Refused
from sandboxed_tools.runtime.prepared import PreparedCall

__all__ = ["Attempt", "Job", "cancelled", "failed", "halts", "refused", "rendered"]

_ENDS_LATER_CALLS: Final = "Bash"
_NOT_ENDED: Final = ("timeout", "idle_timeout")

log = logging.getLogger("sandboxed_tools")

Attempt = PreparedCall | SandboxedToolsError
"""A prepared call, or why it could not be prepared."""


@dataclass(eq=False, slots=True)
class Job:
    """One submitted call. ``last`` is its last event, once it has ended."""

    id: str
    tool: str
    raw_input: object
    scope: anyio.CancelScope = field(default_factory=lambda: anyio.CancelScope(shield=True))
    is_exclusive: bool = False
    has_started: bool = False
    cancel_reason: str | None = None
    interrupt_cancels: bool = False
    is_discarded: bool = False
    last: LastEvent | None = None


def halts(job: Job) -> bool:
    """Whether later calls must not run: they were written for a state that was not reached."""
    last = job.last
    if job.tool != _ENDS_LATER_CALLS or last is None:
        return False
    if isinstance(last, Refused):
        return not isinstance(last.error, CallCancelled)
    if last.outcome == "ok":
        result = last.result
        return result is not None and result.exec is not None and result.exec.status in _NOT_ENDED
    return isinstance(last.error, SandboxUnavailable)


def cancelled(job: Job) -> LastEvent:
    why = job.cancel_reason or "The call was cancelled."
    error = CallCancelled(why, has_started=job.has_started)
    if job.has_started:
        return Finished(job.id, job.tool, "cancelled", why, why, error=error)
    return Refused(job.id, job.tool, why, why, error)


def failed(job: Job, prepared: Attempt, error: SandboxedToolsError) -> Finished:
    shown = rendered(prepared, lambda call: call.entry.tool.render_error(error), str(error))
    return Finished(job.id, job.tool, "failed", error.for_model, shown, error=error)


def refused(job: Job, prepared: Attempt, error: SandboxedToolsError) -> Refused:
    def render(call: PreparedCall) -> str:
        return f"{call.entry.tool.render_rejected(call.tool_input)} ({error})"

    return Refused(job.id, job.tool, error.for_model, rendered(prepared, render, str(error)), error)


def rendered(prepared: Attempt, render: Callable[[PreparedCall], str], otherwise: str) -> str:
    """An author's rendering; ``otherwise`` where there is none, or it raises."""
    if isinstance(prepared, SandboxedToolsError):
        return otherwise
    try:
        return render(prepared)
    except (Exception, SystemExit):
        log.exception("a render function of %s failed", prepared.entry.tool.name)
        return otherwise
