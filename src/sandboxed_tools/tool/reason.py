"""Why a decision came out as it did: the one value that verdicts and placements share."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Reason"]


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason, for programs (``code``) and for people (``message``).

    ``start`` and ``end`` are offsets in characters into the command that is explained, and are
    ``None`` when the reason is about the call as a whole. ``message`` may quote the command: treat
    it as foreign text and pass it through :func:`sandboxed_tools.tool.for_terminal` on its way out.
    """

    code: str
    message: str
    start: int | None = None
    end: int | None = None
