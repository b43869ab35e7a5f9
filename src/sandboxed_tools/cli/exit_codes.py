"""Exit codes of the command line, as other programs that run programs have them."""

from __future__ import annotations

from sandboxed_tools.errors import (
    CallError,
    ChangeSetNotFound,
    ConfigurationError,
    InvalidInput,
    SandboxedToolsError,
    ToolFailed,
    ToolNotFound,
)
from sandboxed_tools.tool import ExecResult

__all__ = [
    "FAILED",
    "INTERRUPTED",
    "LIMIT",
    "REFUSED",
    "SANDBOX_FAILED",
    "USAGE",
    "of_call_error",
    "of_error",
    "of_result",
]

FAILED = 1
USAGE = 2
LIMIT = 122
TIMEOUT = 124
SANDBOX_FAILED = 125
REFUSED = 126
OOM = 137
INTERRUPTED = 130


def of_result(result: ExecResult) -> int:
    """The command's own code, or what its ending stands for.

    128+n for a signal, 124 for a timeout, 137 out of memory, 122 another limit, 130 cancelled.
    """
    if result.status == "exited":
        return 0 if result.exit_code is None else result.exit_code
    if result.status == "signalled":
        return 128 + (result.signal or 0)
    by_status = {"timeout": TIMEOUT, "idle_timeout": TIMEOUT, "oom": OOM, "cancelled": INTERRUPTED}
    return by_status.get(result.status, LIMIT)


def of_error(error: SandboxedToolsError) -> int:
    """2 for what the user wrote wrongly, 126 for what was refused, 125 when the sandbox failed."""
    if isinstance(error, ConfigurationError | InvalidInput | ToolNotFound | ChangeSetNotFound):
        return USAGE
    if isinstance(error, ToolFailed):
        return FAILED
    return REFUSED if isinstance(error, CallError) else SANDBOX_FAILED


def of_call_error(error: SandboxedToolsError) -> int:
    """For ``call``: 2 for settings that cannot be used, 1 for a call that was refused or failed."""
    return USAGE if isinstance(error, ConfigurationError) else FAILED
