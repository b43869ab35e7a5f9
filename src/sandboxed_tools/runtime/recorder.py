"""What the audit log is told of each call: an intent before it runs, the outcome after."""

from __future__ import annotations

import atexit
import getpass
import logging
import os
import sys
import threading
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from sandboxed_tools.audit import AuditLog, bounded, redacted
from sandboxed_tools.audit.log import Kind
from sandboxed_tools.errors import AuditUnavailable, SandboxedToolsError
from sandboxed_tools.policy import MergedPolicy, Placement
from sandboxed_tools.runtime.prepared import PreparedCall
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.tool import ExecResult, PermissionDecision, Reason
from sandboxed_tools.tool.state import state_dir

__all__ = ["CallRecorder", "process_log"]

log = logging.getLogger("sandboxed_tools.audit")

_MAX_REASONS: Final = 8
_logs: dict[Path, AuditLog] = {}
_logs_lock = threading.Lock()


def process_log() -> AuditLog:
    """This process's log in the state folder; every Toolbox writes into the same chain.

    Raises:
        ConfigurationError: the state folder cannot be used.
    """
    folder = state_dir()
    with _logs_lock:
        if folder not in _logs:
            _logs[folder] = AuditLog(folder)
            atexit.register(_logs[folder].close)
        return _logs[folder]


class CallRecorder:
    """Writes the records of one Toolbox's calls.

    What ``audit`` of the policy says decides what happens when a record cannot be written:
    ``required`` refuses the call, ``best-effort`` logs it, ``off`` writes nothing.
    """

    def __init__(self, log: AuditLog | None, *, workspace: Path | None) -> None:
        self._log = log
        self._workspace = None if workspace is None else os.fsdecode(workspace)

    async def refused(
        self,
        call_id: str,
        *,
        tool: str,
        error: BaseException,
        policy: MergedPolicy | None,
        prepared: PreparedCall | None = None,
    ) -> None:
        """Record a call that nothing has run of. A record that fails is logged: it is refused
        in any case."""
        facts: dict[str, Any] = {
            **_who(os.getpid()),
            "workspace": self._workspace,
            "tool": bounded(tool, limit=100),
            "error": _code(error),
            "message": bounded(str(error), limit=500),
            "origin": bounded(getattr(error, "operator_detail", None) or "") or None,
            "policy": None if policy is None else policy.digest,
        }
        if prepared is not None:
            facts |= _judged(prepared, prepared.decision)
        mode = "required" if policy is None else policy.policy.audit
        try:
            await self._write("refused", call_id, facts, mode=mode)
        except SandboxedToolsError as failure:
            log.error(
                "the refusal of call %s was not recorded: %s", call_id, failure.operator_detail
            )

    async def intent(
        self,
        call_id: str,
        prepared: PreparedCall,
        decision: PermissionDecision,
        spec: SandboxSpec | None,
    ) -> None:
        """Record that a call is about to run; ``spec`` is the sandbox of one that may need it.

        Raises:
            AuditUnavailable: it cannot be recorded, and the policy wants it to be.
        """
        facts = {
            **_who(os.getpid()),
            "workspace": self._workspace,
            "policy": prepared.policy.digest,
            "mode": prepared.policy.policy.mode,
            **_judged(prepared, decision),
        }
        if spec is not None:
            facts |= {
                "image": spec.image,
                "network": spec.network,
                "services": dict(spec.services),
                "runtime": spec.runtime,
                "limits": spec.limits.model_dump(),
            }
        await self._write("intent", call_id, facts, mode=prepared.policy.policy.audit)

    async def outcome(
        self,
        call_id: str,
        prepared: PreparedCall,
        *,
        placement: Placement,
        result: ExecResult | None,
        error: BaseException | None,
        duration_s: float,
    ) -> None:
        """Record how it ended, also under cancellation. What fails is logged: the work is done, and
        the next intent will not be written either."""
        facts: dict[str, Any] = {"outcome": "ok", "duration_s": round(duration_s, 6)}
        if error is not None:
            facts["outcome"] = "failed" if isinstance(error, Exception) else "cancelled"
            facts["error"] = _code(error)
            facts["message"] = bounded(str(error), limit=500)
        if placement is not prepared.placement:
            facts |= _placed(placement)
        if result is not None:
            facts |= _ended(result)
        try:
            await self._write("outcome", call_id, facts, mode=prepared.policy.policy.audit)
        except SandboxedToolsError as failure:
            log.error(
                "the outcome of call %s was not recorded: %s", call_id, failure.operator_detail
            )

    async def _write(
        self, kind: Kind, call_id: str, facts: Mapping[str, Any], *, mode: str
    ) -> None:
        """Write a row, also under cancellation: an intent that is written gets its outcome."""
        if mode == "off":
            return
        try:
            if self._log is None:
                # Once for a Toolbox: to check the state folder again costs more than the record.
                self._log = process_log()
            target = self._log
            try:
                # On the event loop: a hop to a worker thread would cost as much again.
                target.write(kind, call_id, facts, may_wait=False)
            except BlockingIOError:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(partial(target.write, kind, call_id, facts))
        except SandboxedToolsError as error:
            if mode == "required":
                raise AuditUnavailable(operator_detail=error.operator_detail) from error
            log.warning("call %s was not recorded: %s", call_id, error.operator_detail or error)


def _code(error: BaseException) -> str:
    if isinstance(error, SandboxedToolsError):
        return error.code
    return type(error).__name__ if isinstance(error, Exception) else "cancelled"


@lru_cache(maxsize=2)
def _who(pid: int) -> Mapping[str, Any]:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    program = os.path.basename(sys.argv[0]) if sys.argv else ""
    return {"uid": os.geteuid(), "user": user, "pid": pid, "program": program}


def _judged(prepared: PreparedCall, decision: PermissionDecision) -> dict[str, Any]:
    tool = prepared.entry.tool
    try:
        shown: Any = redacted(tool.redact(prepared.tool_input))
    except (Exception, SystemExit) as error:  # noqa: BLE001  (an author's code: then nothing of it is kept)
        shown = {"unavailable": f"redact raised {type(error).__name__}"}
    return {
        "tool": tool.name,
        "version": tool.version,
        "input": shown,
        "read_only": prepared.flags.is_read_only,
        "decision": decision.behavior,
        "rule": bounded(decision.rule, limit=1000),
        "layer": decision.layer,
        **_placed(prepared.placement),
    }


def _placed(placement: Placement) -> dict[str, Any]:
    return {"placement": placement.where, "reasons": _reasons(placement.reasons)}


@lru_cache(maxsize=256)
def _reasons(reasons: tuple[Reason, ...]) -> list[list[str]]:
    return [[reason.code, bounded(reason.message, limit=200)] for reason in reasons[:_MAX_REASONS]]


def _ended(result: ExecResult) -> dict[str, Any]:
    usage, changes = result.usage, result.changes
    return {
        "status": result.status,
        "exit_code": result.exit_code,
        "signal": result.signal,
        "limits_hit": sorted(result.limits_hit),
        "stdout_bytes": result.stdout_bytes,
        "stderr_bytes": result.stderr_bytes,
        "cpu_s": usage.cpu_s,
        "memory_peak_bytes": usage.memory_peak_bytes,
        "pids_peak": usage.pids_peak,
        "image_digest": result.image,
        "view": result.view,
        "change_set": None if changes is None else changes.id,
        "changes": None if changes is None else changes.decision,
    }
