"""Ending a call from outside without losing its result."""

from __future__ import annotations

import threading

from sandboxed_tools.sandbox.docker.call import Call

__all__ = ["StopRequest"]


class StopRequest:
    """Ends a call from outside and still gives its result: ``status="cancelled"``, output so far.

    For Ctrl-C and the like. Cancelling the task instead gives no result, as cancelling does.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._call: Call | None = None
        self._is_set = False

    def set(self) -> None:
        """Stop the call now, or as soon as it begins. From any thread or signal handler."""
        self._is_set = True
        call = self._call
        if call is not None:
            call.stop()

    def bind(self, call: Call) -> None:
        self._call = call
        if self._is_set:
            call.stop()
