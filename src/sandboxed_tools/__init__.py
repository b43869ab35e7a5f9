"""Tools for a language model that cannot hurt their owner."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandboxed_tools.builtin import (
        Artifact,
        Bash,
        BashInput,
        CodeResult,
        Edit,
        EditInput,
        ExecuteCode,
        ExecuteCodeInput,
        Glob,
        GlobInput,
        Grep,
        GrepInput,
        Read,
        ReadInput,
        Write,
        WriteInput,
    )
    from sandboxed_tools.errors import (
        CallError,
        ConfigurationError,
        InvalidInput,
        NotMovable,
        PermissionDenied,
        RemoteError,
        SandboxedToolsError,
        SandboxUnavailable,
        ToolDefinitionError,
    )
    from sandboxed_tools.policy import (
        AdmissionPolicy,
        Answer,
        ConfirmationRequest,
        LayeredPolicy,
        Placement,
        Policy,
        Rule,
        decide_placement,
    )
    from sandboxed_tools.runtime import (
        CallResult,
        Event,
        Executor,
        Finished,
        Output,
        Progress,
        Refused,
        Started,
        SyncExecutor,
        SyncToolbox,
        Toolbox,
    )
    from sandboxed_tools.tool import (
        TOOL_DEFAULTS,
        ChangeSummary,
        Command,
        Context,
        ExecResult,
        Flags,
        Limits,
        PermissionDecision,
        Reason,
        Tool,
        ToolInput,
        build_tool,
        for_model,
        for_terminal,
    )

__all__ = [
    "TOOL_DEFAULTS",
    "AdmissionPolicy",
    "Answer",
    "Artifact",
    "Bash",
    "BashInput",
    "CallError",
    "CallResult",
    "ChangeSummary",
    "CodeResult",
    "Command",
    "ConfigurationError",
    "ConfirmationRequest",
    "Context",
    "Edit",
    "EditInput",
    "Event",
    "ExecResult",
    "ExecuteCode",
    "ExecuteCodeInput",
    "Executor",
    "Finished",
    "Flags",
    "Glob",
    "GlobInput",
    "Grep",
    "GrepInput",
    "InvalidInput",
    "LayeredPolicy",
    "Limits",
    "NotMovable",
    "Output",
    "PermissionDecision",
    "PermissionDenied",
    "Placement",
    "Policy",
    "Progress",
    "Read",
    "ReadInput",
    "Reason",
    "Refused",
    "RemoteError",
    "Rule",
    "SandboxUnavailable",
    "SandboxedToolsError",
    "Started",
    "SyncExecutor",
    "SyncToolbox",
    "Tool",
    "ToolDefinitionError",
    "ToolInput",
    "Toolbox",
    "Write",
    "WriteInput",
    "build_tool",
    "decide_placement",
    "for_model",
    "for_terminal",
]

_HOMES = ("errors", "tool", "policy", "builtin", "runtime")
"""Where these names live, each place resting on those before it."""

if not TYPE_CHECKING:  # or a checker would believe in any name

    def __getattr__(name: str) -> object:
        """Import what is asked for when it is asked for (PEP 562): all of it takes a while, and
        whoever writes a tool needs a small part."""
        if name in __all__:
            for home in _HOMES:
                module = import_module(f"{__name__}.{home}")
                if name in module.__all__:
                    globals()[name] = getattr(module, name)
                    return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return list(__all__)
