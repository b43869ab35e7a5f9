"""What an exception of foreign code says of itself: saying it is foreign code once more."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["text_of"]


def text_of(error: BaseException, *, say: Callable[[object], str] = repr) -> str:
    """``say(error)``, or its type where an author's ``__repr__`` or ``__str__`` raises, too.

    Foreign text, to go through ``for_terminal``. Never raises, or the fault of a tool would leave
    a call as whatever its author's exception raises.
    """
    try:
        return say(error)
    except (Exception, SystemExit):  # noqa: BLE001  (an author's code, whatever it raises)
        return f"{type(error).__name__} (what it says cannot be read)"
