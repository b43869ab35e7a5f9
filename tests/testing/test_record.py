"""What is kept of a test's commands for its report is bounded, however many it runs."""

from __future__ import annotations

from sandboxed_tools.testing.record import MAX_SECTIONS, SHOWN_CHARS, Record
from sandboxed_tools.tool import ExecResult


def test_the_last_commands_are_shown_under_their_own_numbers() -> None:
    record = Record()
    for number in range(1, 1001):
        record.add(f"echo {number}", ExecResult("exited", exit_code=0))
    titles = [title for title, _ in record.sections()]
    assert len(titles) == MAX_SECTIONS
    assert titles[-1] == "sandbox 1000: echo 1000"


def test_a_section_is_short_and_harmless_whatever_was_printed() -> None:
    record = Record()
    noise = b"\x1b]0;title\x07\xff" * 100_000
    command = "printf '\x1b[2J'\n" + "x" * 10_000
    record.add(command, ExecResult("exited", exit_code=0, stdout=noise))
    ((title, text),) = record.sections()
    assert len(title) < 100
    assert len(text) < 10 * SHOWN_CHARS
    assert "characters left out" in text
    assert "\x1b" not in title + text
