"""Where things stand in the image with Python, and the language that its runner speaks."""

from __future__ import annotations

__all__ = ["PYTHON_IMAGE", "RUNNER_ARGV", "RUNNER_VERSION", "SITE"]

PYTHON_IMAGE = "sandboxed-tools/python"
SITE = "/opt/sandboxed-tools/site"
RUNNER_ARGV = (
    "/opt/sandboxed-tools/python",
    "-I",
    "-B",
    f"{SITE}/sandboxed_tools/inside/runner.py",
)
RUNNER_VERSION = 1
"""Of what both sides say to each other; a runner of another version refuses by name."""
