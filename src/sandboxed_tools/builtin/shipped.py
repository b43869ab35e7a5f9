"""The list of what is shipped: these tools have trust by default, nothing else has."""

from __future__ import annotations

from sandboxed_tools.builtin.bash import Bash
from sandboxed_tools.builtin.edit import Edit
from sandboxed_tools.builtin.execute_code import ExecuteCode
from sandboxed_tools.builtin.glob import Glob
from sandboxed_tools.builtin.grep import Grep
from sandboxed_tools.builtin.read import Read
from sandboxed_tools.builtin.write import Write
from sandboxed_tools.tool import AnyTool

__all__ = ["SHIPPED"]

SHIPPED: tuple[AnyTool, ...] = (Bash, Read, Write, Edit, Glob, Grep, ExecuteCode)
