"""The tools that are shipped, and trusted."""

from sandboxed_tools.builtin.bash import Bash, BashInput
from sandboxed_tools.builtin.edit import Edit, EditInput
from sandboxed_tools.builtin.glob import Glob, GlobInput
from sandboxed_tools.builtin.grep import Grep, GrepInput
from sandboxed_tools.builtin.read import Read, ReadInput
from sandboxed_tools.builtin.shipped import SHIPPED
from sandboxed_tools.builtin.write import Write, WriteInput

__all__ = [
    "SHIPPED",
    "Bash",
    "BashInput",
    "Edit",
    "EditInput",
    "Glob",
    "GlobInput",
    "Grep",
    "GrepInput",
    "Read",
    "ReadInput",
    "Write",
    "WriteInput",
]
