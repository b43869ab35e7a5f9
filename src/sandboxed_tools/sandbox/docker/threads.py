"""Starting a thread where there may be no more of them for a moment (pthread_create(3), EAGAIN)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

__all__ = ["started_thread"]


def started_thread(
    work: Callable[[], None], *, name: str, log: logging.Logger, without: str
) -> threading.Thread | None:
    """A daemon thread that runs ``work``; ``None`` where none can be started now.

    Then ``log`` is told what happens ``without`` it: whoever comes next is to try again.
    """
    thread = threading.Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        log.warning("%s: %s", without, error)
        return None
    return thread
