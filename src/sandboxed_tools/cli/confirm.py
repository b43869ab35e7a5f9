"""Asking the person at the terminal."""

from __future__ import annotations

import sys

import anyio.to_thread

from sandboxed_tools.cli.console import safe, stderr
from sandboxed_tools.policy import ConfirmationRequest, Confirmer

__all__ = ["terminal_confirmer"]


def terminal_confirmer() -> Confirmer | None:
    """A confirmer that asks on the terminal; ``None`` where there is none, which means no."""
    return _ask if sys.stdin.isatty() and sys.stderr.isatty() else None


async def _ask(request: ConfirmationRequest) -> bool:
    console = stderr()
    console.print(safe(request.use, "bold"))
    console.print(safe(f"{request.reason}; it would run on: {request.placement.where}"))
    console.print("Run it? [y/N] ", end="", markup=False)
    answer = await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    return answer.strip().lower() in ("y", "yes")
