"""For tests of tools, of backends, and of anything that runs untrusted code."""

from sandboxed_tools.testing.direct import call_directly

__all__ = ["call_directly"]
