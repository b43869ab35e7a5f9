"""An exception as data: what it was, what it said, and where."""

from __future__ import annotations

import traceback
from typing import Any

__all__ = ["error_data"]

MAX_MESSAGE_CHARS = 8192
MAX_TRACEBACK_CHARS = 65_536
MAX_FRAMES = 50


def error_data(error: BaseException, *, skip_above: str | None = None) -> dict[str, Any]:
    """``error`` as JSON-like data, bounded. Nothing that it defines itself can break this.

    Frames above and in the file ``skip_above`` are left out: they are not the author's.
    """
    return {
        "type": _text(lambda: type(error).__qualname__, 200),
        "module": _text(lambda: type(error).__module__, 200),
        "message": _text(lambda: str(error), MAX_MESSAGE_CHARS),
        "traceback": _text(lambda: _traceback(error, skip_above), MAX_TRACEBACK_CHARS),
    }


def _traceback(error: BaseException, skip_above: str | None) -> str:
    place = error.__traceback__
    last = place
    while place is not None and skip_above is not None:
        if place.tb_frame.f_code.co_filename == skip_above:
            last = place.tb_next
        place = place.tb_next
    lines = traceback.format_exception(type(error), error, last, limit=-MAX_FRAMES)
    return "".join(lines)


def _text(make: Any, limit: int) -> str:
    try:
        text = make()
    except BaseException as failure:  # noqa: BLE001  the author's own __str__, which may do anything
        text = f"(it could not be shown: {type(failure).__name__})"
    text = text if isinstance(text, str) else "(it could not be shown)"
    if len(text) > limit:
        text = f"{text[: limit // 2]}\n[…]\n{text[-limit // 2 :]}"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
