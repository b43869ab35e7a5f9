"""What a tool is, and the values that cross every layer."""

from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.context import Context, Environment, PermissionDecision
from sandboxed_tools.tool.defaults import TOOL_DEFAULTS
from sandboxed_tools.tool.factory import build_tool
from sandboxed_tools.tool.flags import Flags
from sandboxed_tools.tool.foreign_text import for_model, for_terminal
from sandboxed_tools.tool.interface import AnyTool, Tool
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.output import OutputCollector
from sandboxed_tools.tool.reason import Reason
from sandboxed_tools.tool.result import ChangeSummary, ExecResult, Phases, Status, Usage
from sandboxed_tools.tool.schema import ToolInput

__all__ = [
    "TOOL_DEFAULTS",
    "AnyTool",
    "ChangeSummary",
    "Command",
    "Context",
    "Environment",
    "ExecResult",
    "Flags",
    "Limits",
    "OutputCollector",
    "PermissionDecision",
    "Phases",
    "Reason",
    "Status",
    "Tool",
    "ToolInput",
    "Usage",
    "build_tool",
    "for_model",
    "for_terminal",
]
