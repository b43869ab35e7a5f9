"""Paths as a model writes them, read as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxed_tools.errors import PathRefused
from sandboxed_tools.workspace.spelling import one_line_name, parse_path, shown

ROOTS = (b"/srv/project", b"/opt/headers")


@pytest.mark.parametrize(
    ("text", "index", "parts"),
    [
        ("a.txt", 0, (b"a.txt",)),
        ("./a//b/./c/", 0, (b"a", b"b", b"c")),
        (".", 0, ()),
        ("", 0, ()),
        ("/workspace", 0, ()),
        ("/workspace/a", 0, (b"a",)),
        ("//workspace//a", 0, (b"a",)),
        ("/srv/project/a/b", 0, (b"a", b"b")),
        ("/srv/project", 0, ()),
        ("/opt/headers/x.h", 1, (b"x.h",)),
        ("~", 0, (b"~",)),
        ("~/.ssh/id_rsa", 0, (b"~", b".ssh", b"id_rsa")),
        ("$HOME", 0, (b"$HOME",)),
        ("...", 0, (b"...",)),
        ("..a/b..", 0, (b"..a", b"b..")),
        ("a\nb", 0, (b"a\nb",)),
        ("\udcff\udcfe", 0, (b"\xff\xfe",)),
    ],
)
def test_a_path_is_read_as_names_below_a_root(
    text: str, index: int, parts: tuple[bytes, ...]
) -> None:
    assert parse_path(text, roots=ROOTS) == (index, parts)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("/etc/passwd", "outside"),
        ("/", "outside"),
        ("/workspace-evil/x", "outside"),
        ("/srv/project2/x", "outside"),
        ("/srv", "outside"),
        ("..", "outside"),
        ("../x", "outside"),
        ("a/..", "dotdot"),
        ("p/q/../../x", "dotdot"),
        ("/workspace/../etc/passwd", "dotdot"),
        ("/srv/project/../other", "dotdot"),
        ("a\0/../../etc/passwd", "nul"),
        ("\ud800", "encoding"),
        ("a/" * 40_000, "too_long"),
    ],
)
def test_a_path_that_may_lead_out_is_refused_by_its_text(text: str, reason: str) -> None:
    with pytest.raises(PathRefused) as refused:
        parse_path(text, roots=ROOTS)
    assert refused.value.reason == reason


def test_a_relative_path_starts_at_the_current_folder_and_may_go_up_inside() -> None:
    cwd = (b"src", b"lib")
    assert parse_path("x", roots=ROOTS, cwd=cwd) == (0, (b"src", b"lib", b"x"))
    assert parse_path("../x", roots=ROOTS, cwd=cwd) == (0, (b"src", b"x"))
    assert parse_path("../../x", roots=ROOTS, cwd=cwd) == (0, (b"x",))
    assert parse_path("/workspace/x", roots=ROOTS, cwd=cwd) == (0, (b"x",))
    with pytest.raises(PathRefused):
        parse_path("../../../x", roots=ROOTS, cwd=cwd)


def test_the_longest_root_that_fits_is_taken() -> None:
    roots = (b"/workspace/project", b"/workspace/project/vendor")
    assert parse_path("/workspace/project/vendor/x", roots=roots) == (1, (b"x",))
    assert parse_path("/workspace/project/x", roots=roots) == (0, (b"x",))


@given(st.text(max_size=60), st.lists(st.sampled_from([b"a", b"b"]), max_size=3))
def test_names_never_hold_anything_that_moves_up_or_separates(text: str, cwd: list[bytes]) -> None:
    try:
        _, parts = parse_path(text, roots=ROOTS, cwd=tuple(cwd))
    except PathRefused:
        return
    assert all(name not in (b"", b".", b"..") for name in parts)
    assert not any(b"/" in name or b"\0" in name for name in parts)


def test_a_path_in_a_message_cannot_command_a_terminal() -> None:
    assert "\x1b" not in shown("\x1b]0;title\x07a\nb\u202eg")
    assert "\n" not in shown("a\nb")
    assert len(shown("x" * 5000)) < 400


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sec\x1b[0mret", r"sec\x1b[0mret"),
        ("a\x1b]0;title\x07b", r"a\x1b]0;title\x07b"),
        ("a\x9b2Kb", r"a\x9b2Kb"),
        ("a\r\nb", r"a\x0d\x0ab"),
        ("a\u202eb", r"a\u202eb"),
        ("né \udcff", r"né \xff"),
    ],
)
def test_nothing_of_a_name_is_left_out_where_it_is_shown(name: str, text: str) -> None:
    assert one_line_name(name) == shown(name) == text
