"""Progress: plain lines into logs, one live line on a terminal, foreign text never obeyed."""

from __future__ import annotations

import io

from sandboxed_tools.sandbox.docker.progress import open_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_gets_one_line_for_each_step() -> None:
    stream = io.StringIO()
    with open_progress(stream) as progress:
        progress.step("building")
        for _ in range(1000):
            progress.line("Get:1 http://deb.debian.org …")
        progress.step("done\x1b[2J\nnot a second line")
    assert stream.getvalue() == "==> building\n==> done\\x0anot a second line\n"


def test_a_terminal_shows_the_step_and_obeys_nothing_foreign() -> None:
    stream = Terminal()
    with open_progress(stream) as progress:
        progress.step("building [red]x[/red]")
        progress.line("\x1b]0;evil\x07[bold]fetching")
    shown = stream.getvalue()
    assert "building [red]x[/red]" in shown
    assert "evil" not in shown
