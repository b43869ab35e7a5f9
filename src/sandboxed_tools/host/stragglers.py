"""Processes of a call whose supervisor is gone.

The supervisor cannot be reached from inside the gate, so this is for what comes from outside: an
operator's ``kill -9``, or the kernel short of memory. It finds what can be found without it.
"""

from __future__ import annotations

import logging
import time
from typing import Final

import psutil

from sandboxed_tools.host.scratch import Scratch

__all__ = ["kill_stragglers"]

_log = logging.getLogger(__name__)

_DEADLINE_S: Final = 3.0
_PAUSE_S: Final = 0.01


def kill_stragglers(scratch: Scratch) -> int:
    """Kill every process that got this private folder as its TMPDIR; returns how many.

    Again and again until none is found, because what is found may be forking. A process that
    replaced its environment is not found. Blocking, for at most three seconds.
    """
    killed = 0
    deadline = time.monotonic() + _DEADLINE_S
    while time.monotonic() < deadline:
        found = [process for process in psutil.process_iter() if _belongs(process, scratch)]
        if not found:
            return killed
        for process in found:
            try:
                process.kill()
                killed += 1
            except psutil.Error:
                continue
        psutil.wait_procs(found, timeout=_PAUSE_S)
    _log.warning("processes of the host call in %s could not be ended in time", scratch.root)
    return killed


def _belongs(process: psutil.Process, scratch: Scratch) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return process.environ().get("TMPDIR") == str(scratch.tmp)
    except (psutil.Error, OSError):
        return False
