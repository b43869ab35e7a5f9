"""Showing that a long step goes on: live on a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from sandboxed_tools.tool.foreign_text import for_terminal

__all__ = ["PlainProgress", "Progress", "SilentProgress", "open_progress"]


class Progress(Protocol):
    """Told about long work while it runs. Calls must not raise."""

    def step(self, text: str) -> None:
        """A new step begins; it may take from seconds to minutes."""
        ...

    def line(self, text: str) -> None:
        """One line of what the step prints: foreign text, shown only where it can be replaced."""
        ...


class SilentProgress:
    """Shows nothing."""

    def step(self, text: str) -> None: ...

    def line(self, text: str) -> None: ...


class PlainProgress:
    """A line for each step, for logs and pipes. What a step prints is left out: it may be long."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def step(self, text: str) -> None:
        self._stream.write(f"==> {for_terminal(text, one_line=True)}\n")
        self._stream.flush()

    def line(self, text: str) -> None: ...


@contextmanager
def open_progress(stream: TextIO | None = None) -> Iterator[Progress]:
    """Progress on ``stream`` (standard error): a spinner with the newest line on a terminal."""
    stream = stream or sys.stderr
    if not stream.isatty():
        yield PlainProgress(stream)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream)
    with console.status("") as status:

        class Live:
            def step(self, text: str) -> None:
                shown = for_terminal(text, one_line=True)
                console.print(Text.assemble(("==> ", "bold cyan"), (shown, "bold")))
                status.update(Text(shown, overflow="ellipsis", no_wrap=True))

            def line(self, text: str) -> None:
                shown = for_terminal(text, one_line=True).strip()
                if shown:
                    width = max(20, console.width - 4)
                    status.update(Text(shown[:width], style="dim", no_wrap=True))

        yield Live()
