"""Who tries to get out of the gate, and with what."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from sandboxed_tools.host import HostOutcome

Run = Callable[..., HostOutcome]

PYTHON = "/usr/bin/python3"
"""The system's Python, which needs nothing but ``/usr``, unlike the one that runs the tests."""


def command_user() -> dict[str, Any]:
    """Arguments that make subprocess use the user that commands in the gate have."""
    if os.geteuid() != 0:
        return {}
    return {"user": 65534, "group": 65534, "extra_groups": []}


def require_system_python() -> None:
    """Skip where the system has no Python for the attacking programs."""
    if not os.access(PYTHON, os.X_OK):
        pytest.skip(f"{PYTHON} is not there")
