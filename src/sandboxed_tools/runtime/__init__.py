"""One call, many calls: the Toolbox, and its executor."""

from sandboxed_tools.runtime.events import (
    Event,
    Finished,
    LastEvent,
    Output,
    Progress,
    Refused,
    Started,
)
from sandboxed_tools.runtime.executor import Executor
from sandboxed_tools.runtime.result import CallResult, Explanation
from sandboxed_tools.runtime.sync import SyncToolbox
from sandboxed_tools.runtime.sync_executor import SyncExecutor
from sandboxed_tools.runtime.toolbox import Toolbox

__all__ = [
    "CallResult",
    "Event",
    "Executor",
    "Explanation",
    "Finished",
    "LastEvent",
    "Output",
    "Progress",
    "Refused",
    "Started",
    "SyncExecutor",
    "SyncToolbox",
    "Toolbox",
]
