"""What a person sees of a diff is what is in it."""

from __future__ import annotations

import pytest

from sandboxed_tools.cli.changes_shown import show_diffs
from sandboxed_tools.workspace import ChangeDiff
from sandboxed_tools.workspace.change import Change, FileFacts

FACTS = FileFacts("file", 0o644, 1, 1, 1, 1)


def shown(text: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    header = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n"
    show_diffs([ChangeDiff(Change(b"f", "modified", FACTS, FACTS), header + text, "")])
    return capsys.readouterr().out.splitlines()[4:]


@pytest.mark.parametrize("mark", ["\r", "\x0c", "\x1e", "\x85", "\u2028", "\u2029"])
def test_no_character_in_a_line_begins_another_one(
    mark: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = shown(f"+harmless{mark}-forged\n", capsys)
    assert line.startswith("+harmless")
    assert line.endswith("-forged")


def test_line_ends_are_shown_where_they_change(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown("-one\r\n+two\r\n three\r\n", capsys) == ["-one", "+two", " three"]
    assert shown("-one\n+one\r\n", capsys) == ["-one", r"+one\x0d"]
