"""Looks at the host before another call is let in."""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

__all__ = ["HostGuard", "HostLimits"]

_log = logging.getLogger(__name__)

LOOK_AGAIN_S = 0.5


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What must stay free on the host.

    Attributes:
        memory_bytes, memory_share: available memory, the larger of both counts.
        disk_bytes: free space on each file system that is watched.
        load_per_cpu: the one-minute load average divided by the number of processors.
    """

    memory_bytes: int = 256 * 1024 * 1024
    memory_share: float = 0.05
    disk_bytes: int = 512 * 1024 * 1024
    load_per_cpu: float = 32.0


class HostGuard:
    """Names what the host lacks. Answers are kept for half a second, so asking costs nothing.

    ``folders`` are where the engine and the state live; one that cannot be looked at is left out
    (a remote engine's folder is not here).
    """

    def __init__(self, limits: HostLimits | None = None, *, folders: tuple[Path, ...] = ()) -> None:
        self._limits = limits or HostLimits()
        self._folders = folders
        self._lock = threading.Lock()
        self._answer = ""
        self._looked_at = 0.0

    def lacking(self) -> str:
        """``host memory``, ``host disk``, ``host load``, or an empty text.

        A host that does not tell its figures lacks ``host figures``.
        """
        now = time.monotonic()
        with self._lock:
            if now - self._looked_at >= LOOK_AGAIN_S:
                self._looked_at = now
                try:
                    self._answer = self._look()
                except (OSError, RuntimeError, psutil.Error) as error:
                    _log.error("the host does not tell what it has: %s", error)
                    self._answer = "host figures"
            return self._answer

    def _look(self) -> str:
        memory = psutil.virtual_memory()
        least = max(self._limits.memory_bytes, int(self._limits.memory_share * memory.total))
        if memory.available < least:
            return "host memory"
        for folder in self._folders:
            try:
                free = psutil.disk_usage(str(folder)).free
            except OSError:
                continue
            if free < self._limits.disk_bytes:
                return "host disk"
        if os.getloadavg()[0] / (os.cpu_count() or 1) > self._limits.load_per_cpu:
            return "host load"
        return ""
