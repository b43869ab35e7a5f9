"""The list of what is shipped: these tools have trust by default, nothing else has."""

from __future__ import annotations

from sandboxed_tools.builtin.bash import Bash
from sandboxed_tools.builtin.glob import Glob
from sandboxed_tools.tool import AnyTool

__all__ = ["SHIPPED"]

SHIPPED: tuple[AnyTool, ...] = (Bash, Glob)
