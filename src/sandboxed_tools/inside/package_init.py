"""``sandboxed_tools`` as it is inside a container: what a tool's own code may name, no more."""

from sandboxed_tools.errors import *  # noqa: F403
from sandboxed_tools.tool import *  # noqa: F403
