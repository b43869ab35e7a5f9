"""Every error that the library raises, drawn as a tree.

::

    SandboxedToolsError
    ├── ToolDefinitionError        the author of a tool wrote something that cannot be right
    ├── ConfigurationError         the operator's settings cannot be used
    │   ├── InvalidLimits            a limit that is malformed, not finite, or over a ceiling
    │   └── InvalidWorkspace         a workspace that may not be used, and why
    ├── CallError                  this call was not carried out; a model may be told why
    │   ├── ToolNotFound
    │   ├── InvalidInput             with field paths
    │   ├── PermissionDenied         a rule, a mode or a person said no
    │   ├── NotAuthorized            a tool was called past its Toolbox
    │   ├── NotMovable               the call belongs in a container and cannot travel there
    │   ├── PathRefused              a path that leaves the workspace, or is no regular file
    │   ├── PendingChanges           held changes must be decided first
    │   ├── CallCancelled            dropped before it ended: an earlier failure, or an interruption
    │   ├── AuditUnavailable         the call cannot be recorded, so it is not run
    │   └── ToolFailed               the tool's own code raised
    ├── RemoteError                what a tool's code raised in a container; causes a ToolFailed
    ├── ChangeSetNotFound          no change set of this id is kept here
    └── SandboxUnavailable         the sandbox itself failed; the call did not fall back to the host
        ├── EngineNotFound           no engine answers
        ├── EngineForbidden          an engine is there, and this user may not talk to it
        ├── EngineFault              the engine answered with a fault, or went away
        ├── ImageUnavailable         the image is missing, or its build failed
        ├── ImageRefused             the image's configuration would weaken the sandbox
        ├── ServiceUnavailable       a service that the call is to join is not there, or may not be
        ├── UnsupportedOnEngine      this engine cannot enforce what was asked for
        └── Overloaded               admission said no; the host or a budget is full

Two audiences never mix. ``str(error)`` and ``error.for_model`` are safe to show to a model and say
what it can do next. ``error.operator_detail`` may hold paths, engine messages and identifiers, and
is for the person who runs the program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

__all__ = [
    "AuditUnavailable",
    "CallCancelled",
    "CallError",
    "ChangeSetNotFound",
    "ConfigurationError",
    "EngineFault",
    "EngineForbidden",
    "EngineNotFound",
    "FieldError",
    "ImageRefused",
    "ImageUnavailable",
    "InvalidInput",
    "InvalidLimits",
    "InvalidWorkspace",
    "NotAuthorized",
    "NotMovable",
    "Overloaded",
    "PathRefused",
    "PendingChanges",
    "PermissionDenied",
    "RemoteError",
    "SandboxUnavailable",
    "SandboxedToolsError",
    "ServiceUnavailable",
    "ToolDefinitionError",
    "ToolFailed",
    "ToolNotFound",
    "UnsupportedOnEngine",
]


class SandboxedToolsError(Exception):
    """The root: catch it to catch everything that this library raises on purpose."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, operator_detail: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.operator_detail = operator_detail

    @property
    def for_model(self) -> str:
        """What a model may be told: what happened, what was expected, the next step."""
        return self.message


class ToolDefinitionError(SandboxedToolsError):
    """A tool's definition contradicts itself, or names something that does not exist."""

    code = "tool_definition"


class ConfigurationError(SandboxedToolsError):
    """Settings that cannot be used: unknown, malformed, or dangerous."""

    code = "configuration"


class InvalidLimits(ConfigurationError):
    """A limit that is malformed, not finite, out of range, or over a ceiling."""

    code = "invalid_limits"


class InvalidWorkspace(ConfigurationError):
    """A folder that may not be a workspace, with the reason in words."""

    code = "invalid_workspace"


class CallError(SandboxedToolsError):
    """One call was not carried out. Nothing of the tool's work has been done."""

    code = "call"


class ToolNotFound(CallError):
    """No enabled tool has this name or alias."""

    code = "tool_not_found"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong with an input: where (``limits.0.size``), what, and a code."""

    path: str
    message: str
    code: str


class InvalidInput(CallError):
    """The input does not fit the tool's schema or its own rules. ``fields`` names each place."""

    code = "invalid_input"

    def __init__(
        self,
        message: str,
        *,
        fields: tuple[FieldError, ...] = (),
        operator_detail: str | None = None,
    ) -> None:
        super().__init__(message, operator_detail=operator_detail)
        self.fields = fields


class PermissionDenied(CallError):
    """A rule, a mode, or a person said no, or there was nobody to ask."""

    code = "permission_denied"


class NotAuthorized(CallError):
    """A tool was called without a context minted by a Toolbox for this very call."""

    code = "not_authorized"


class NotMovable(CallError):
    """The call belongs in a container, and this tool cannot execute there."""

    code = "not_movable"


class PathRefused(CallError):
    """A path that a host tool will not open. ``reason`` says which rule refused it."""

    code = "path_refused"

    def __init__(
        self, message: str, *, reason: str = "outside", operator_detail: str | None = None
    ) -> None:
        super().__init__(message, operator_detail=operator_detail)
        self.reason = reason


class PendingChanges(CallError):
    """The workspace has held changes; a host tool would show another tree than the container."""

    code = "pending_changes"


class CallCancelled(CallError):
    """The call was dropped: an earlier one failed, or the program was interrupted.

    ``has_started`` tells whether any of its work may have been done.
    """

    code = "call_cancelled"

    def __init__(
        self, message: str, *, has_started: bool = False, operator_detail: str | None = None
    ) -> None:
        super().__init__(message, operator_detail=operator_detail)
        self.has_started = has_started


class AuditUnavailable(CallError):
    """The call cannot be recorded: the disk is full or read-only, or the records are damaged."""

    code = "audit_unavailable"

    def __init__(
        self,
        message: str = "The call was not run, because it cannot be recorded. Tell the operator.",
        *,
        operator_detail: str | None = None,
    ) -> None:
        super().__init__(message, operator_detail=operator_detail)


class ToolFailed(CallError):
    """The tool's own code raised; the original exception is ``__cause__``."""

    code = "tool_failed"


class RemoteError(SandboxedToolsError):
    """An exception that a tool's own code raised in a container, as data.

    ``type_name``, ``message`` and ``traceback_text`` are foreign text: whatever the code said.
    """

    code = "remote_error"

    def __init__(self, *, type_name: str, message: str, traceback_text: str) -> None:
        super().__init__(f"{type_name}: {message}", operator_detail=traceback_text)
        self.type_name = type_name
        self.message = message
        self.traceback_text = traceback_text


class ChangeSetNotFound(SandboxedToolsError):
    """No change set of this id is kept here, or what is kept of it is damaged."""

    code = "change_set_not_found"


class SandboxUnavailable(SandboxedToolsError):
    """The sandbox could not run the call. It was not run anywhere else instead."""

    code = "sandbox_unavailable"


class EngineNotFound(SandboxUnavailable):
    """No container engine answers here; the message lists what was tried and what to do."""

    code = "engine_not_found"


class EngineForbidden(SandboxUnavailable):
    """An engine is there, but this user may not talk to it."""

    code = "engine_forbidden"


class EngineFault(SandboxUnavailable):
    """The engine answered with a fault, or went away in the middle of a call."""

    code = "engine_fault"


class ImageUnavailable(SandboxUnavailable):
    """The image is not there, or could not be built."""

    code = "image_unavailable"


class ImageRefused(SandboxUnavailable):
    """The image's configuration (volumes, ``LD_*``, our label keys, …) would weaken the sandbox."""

    code = "image_refused"


class ServiceUnavailable(SandboxUnavailable):
    """A service that the call is to join does not run, or may not be joined."""

    code = "service_unavailable"


class UnsupportedOnEngine(SandboxUnavailable):
    """This engine or kernel cannot enforce what was asked for."""

    code = "unsupported_on_engine"


class Overloaded(SandboxUnavailable):
    """Too many calls, or too little of the host left. ``what`` names what was full."""

    code = "overloaded"

    def __init__(self, message: str, *, what: str, operator_detail: str | None = None) -> None:
        super().__init__(message, operator_detail=operator_detail)
        self.what = what
