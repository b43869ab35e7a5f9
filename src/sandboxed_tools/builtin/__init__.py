"""The tools that are shipped, and trusted."""

from sandboxed_tools.builtin.bash import Bash, BashInput
from sandboxed_tools.builtin.code_result import Artifact, CodeError, CodeResult
from sandboxed_tools.builtin.edit import Edit, EditInput
from sandboxed_tools.builtin.execute_code import ExecuteCode, ExecuteCodeInput
from sandboxed_tools.builtin.glob import Glob, GlobInput
from sandboxed_tools.builtin.grep import Grep, GrepInput
from sandboxed_tools.builtin.read import Read, ReadInput
from sandboxed_tools.builtin.shipped import SHIPPED
from sandboxed_tools.builtin.write import Write, WriteInput

__all__ = [
    "SHIPPED",
    "Artifact",
    "Bash",
    "BashInput",
    "CodeError",
    "CodeResult",
    "Edit",
    "EditInput",
    "ExecuteCode",
    "ExecuteCodeInput",
    "Glob",
    "GlobInput",
    "Grep",
    "GrepInput",
    "Read",
    "ReadInput",
    "Write",
    "WriteInput",
]
