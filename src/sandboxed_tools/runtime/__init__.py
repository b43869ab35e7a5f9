"""One call, many calls: the Toolbox."""

from sandboxed_tools.runtime.result import CallResult, Explanation
from sandboxed_tools.runtime.sync import SyncToolbox
from sandboxed_tools.runtime.toolbox import Toolbox

__all__ = ["CallResult", "Explanation", "SyncToolbox", "Toolbox"]
