"""Ends a call that changes more of its workspace than it may. Best effort: it looks now and then.

Project quotas would be exact, but need a file system and rights that few have. Between two looks a
fast writer gets further than its limit; a file that is deleted but still open is not seen.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType

from sandboxed_tools.sandbox.contract import View
from sandboxed_tools.sandbox.docker.pump import Ending
from sandboxed_tools.tool.limits import Limits

__all__ = ["DiskWatch", "exceeds"]

PERIOD_S = 0.5
_log = logging.getLogger(__name__)


def exceeds(view: View, limits: Limits) -> bool:
    """Whether the changes hold more than they may now. Blocking, O(changes)."""
    try:
        used = view.usage()
    except OSError:
        # What cannot be counted is not allowed either.
        _log.exception("the changes of a call cannot be counted")
        return True
    if used.is_disk_low:
        return True
    return used.changed_bytes > limits.changes_bytes or used.entries > limits.changes_entries


class DiskWatch:
    """Calls ``on_full("disk")`` once, from a thread of its own, while the block is open."""

    def __init__(self, view: View, *, limits: Limits, on_full: Callable[[Ending], None]) -> None:
        self._view = view
        self._limits = limits
        self._on_full = on_full
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> DiskWatch:
        if any(not mount.read_only for mount in self._view.mounts):
            self._thread = threading.Thread(target=self._run, name="sandbox-disk", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(PERIOD_S):
            if exceeds(self._view, self._limits):
                self._on_full("disk")
                return
