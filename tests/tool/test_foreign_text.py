"""Foreign text: a terminal can only show it, and a model knows where it begins and ends."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxed_tools.tool import for_model, for_terminal


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[Hgone", "gone"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]52;c;ZXZpbA==\x1b\\text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP+q544e\x1b\\text", "text"),
        ("\x9b31mred", "red"),
        ("\x1bcreset", "reset"),
        ("a\bb", "a\\x08b"),
        ("safe\rEVIL", "safe\\x0dEVIL"),
        ("line\r\nline", "line\nline"),
        ("\x07bell", "\\x07bell"),
        ("\x7f", "\\x7f"),
        ("abc\u202edef", "abc\\u202edef"),
        ("a\u2066b\u2069", "a\\u2066b\\u2069"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\udcff", "\\xff"),
        ("\x1b", "\\x1b"),
        ("\x1b[31", "31"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("naïve 日本 🎉", "naïve 日本 🎉"),
    ],
)
def test_control_sequences_and_bidi_marks_never_reach_the_terminal(
    hostile: str, shown: str
) -> None:
    assert for_terminal(hostile) == shown


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    shown = for_terminal(text)
    assert all(
        character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
        for character in shown
    )
    assert "\n" not in for_terminal(text, one_line=True)


@given(st.text())
def test_the_marks_around_text_for_a_model_cannot_be_forged(text: str) -> None:
    marked = for_model(text, source="bash")
    assert marked.startswith('<untrusted source="bash">')
    assert marked.lower().count("</untrusted>") == 1
    assert marked.endswith("</untrusted>")


def test_text_for_a_model_is_bounded_and_its_source_cannot_break_out() -> None:
    marked = for_model("x" * 1_000_000, source='a"><b>\n', max_chars=1000)
    assert len(marked) < 1200
    assert "characters cut" in marked
    assert '"><b>' not in marked
