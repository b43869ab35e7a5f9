"""The tools that are shipped, and trusted."""

from sandboxed_tools.builtin.bash import Bash, BashInput
from sandboxed_tools.builtin.glob import Glob, GlobInput
from sandboxed_tools.builtin.shipped import SHIPPED

__all__ = ["SHIPPED", "Bash", "BashInput", "Glob", "GlobInput"]
