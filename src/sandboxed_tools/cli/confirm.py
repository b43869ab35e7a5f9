"""Asking the person at the terminal."""

from __future__ import annotations

import sys

import anyio.to_thread
from rich.text import Text

from sandboxed_tools.cli.console import safe, stderr
from sandboxed_tools.policy import Answer, ConfirmationRequest, Confirmer
from sandboxed_tools.tool import for_terminal

__all__ = ["terminal_confirmer"]


def terminal_confirmer() -> Confirmer | None:
    """A confirmer that asks on the terminal; ``None`` where there is none, which means no."""
    return _ask if sys.stdin.isatty() and sys.stderr.isatty() else None


async def _ask(request: ConfirmationRequest) -> Answer:
    console = stderr()
    lines = for_terminal(request.use).splitlines()
    for line in lines:
        # A mark before each line: blank ones cannot pass for the end of what is asked.
        console.print(Text("│ ", style="dim") + Text(line, style="bold"))
    if len(lines) > 1:
        console.print(f"These are {len(lines)} lines; read all of them.", markup=False)
    console.print(safe(f"{request.reason}; it would run on: {request.placement.where}"))
    choices = "[y/N]"
    if request.suggested:
        rules = ", ".join(map(str, request.suggested))
        console.print(safe(f"a = always, until this program ends, for {rules}", one_line=True))
        choices = "[y/a/N]"
    console.print(f"Run it? {choices} ", end="", markup=False)
    line = await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    answer = line.strip().lower()
    if answer in ("a", "always") and request.suggested:
        return "always"
    return "once" if answer in ("y", "yes") else "no"
