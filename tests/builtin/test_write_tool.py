"""Write: whole files, with the same care as Edit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sandboxed_tools.builtin.edit import Edit
from sandboxed_tools.builtin.read import Read
from sandboxed_tools.builtin.write import Write
from sandboxed_tools.errors import InvalidInput, PathRefused
from sandboxed_tools.workspace.diff import replacement_between


def code(call_tool: Any, **raw: Any) -> str:
    try:
        call_tool(Write, **raw)
    except InvalidInput as error:
        return error.fields[0].code
    except PathRefused as error:
        return error.reason
    return "nothing was refused"


def test_a_new_file_is_made_with_its_folders(project: Path, call_tool: Any) -> None:
    written = call_tool(Write, file_path="a/b/c.txt", content="héllo\n")
    assert written.is_new
    assert (project / "a" / "b" / "c.txt").read_bytes() == "héllo\n".encode()
    assert Write.to_model_text(written) == "Made a/b/c.txt (7 bytes)."


def test_it_may_be_edited_and_written_again_at_once(project: Path, call_tool: Any) -> None:
    call_tool(Write, file_path="a", content="one\n")
    call_tool(Edit, file_path="a", old_string="one", new_string="two")
    written = call_tool(Write, file_path="a", content="three\n")
    assert not written.is_new
    assert "-two\n+three" in written.diff
    assert (project / "a").read_text() == "three\n"


def test_a_file_that_was_not_read_or_has_changed_is_not_replaced(
    project: Path, call_tool: Any
) -> None:
    (project / "a").write_text("theirs")
    assert code(call_tool, file_path="a", content="x") == "not_read"
    call_tool(Read, file_path="a")
    (project / "a").write_text("theirs too")
    assert code(call_tool, file_path="a", content="x") == "changed"
    assert (project / "a").read_text() == "theirs too"


def test_encoding_and_line_ends_of_the_old_file_are_kept(project: Path, call_tool: Any) -> None:
    (project / "a").write_bytes("ä\r\nb\r\n".encode("utf-8-sig"))
    call_tool(Read, file_path="a")
    call_tool(Write, file_path="a", content="c\nd\n")
    assert (project / "a").read_bytes() == b"\xef\xbb\xbfc\r\nd\r\n"
    (project / "l").write_bytes(b"\xe9\n")
    call_tool(Read, file_path="l")
    assert code(call_tool, file_path="l", content="€\n") == "encoding"
    call_tool(Write, file_path="l", content="è\n")
    assert (project / "l").read_bytes() == b"\xe8\n"


@pytest.mark.parametrize(
    "path",
    ["/etc/new", "../new", "link", "folder/new", "dangling", "fifo", "sub", ".", "file/new", "a\0"],
)
def test_nothing_is_written_outside_or_over_what_is_no_file(
    project: Path, call_tool: Any, path: str
) -> None:
    os.symlink("../outside/secret", project / "link")
    os.symlink("../outside", project / "folder")
    os.symlink("../outside/new", project / "dangling")
    os.mkfifo(project / "fifo")
    (project / "sub").mkdir()
    (project / "file").touch()
    before = sorted(os.listdir(project))
    with pytest.raises((PathRefused, InvalidInput)):
        call_tool(Write, file_path=path, content="x")
    assert sorted(os.listdir(project)) == before
    assert os.listdir(project.parent / "outside") == ["secret"]
    assert (project.parent / "outside" / "secret").read_text() == "secret\n"


@pytest.mark.parametrize("name", ["x" * 300, f"{'d' * 300}/file"])
def test_a_file_that_cannot_be_made_leaves_no_folders(
    project: Path, call_tool: Any, name: str
) -> None:
    (project / "there").mkdir()
    with pytest.raises(PathRefused):
        call_tool(Write, file_path=f"there/a/b/{name}", content="x")
    assert list(project.rglob("*")) == [project / "there"]


def test_binary_files_are_not_replaced_and_lone_surrogates_not_written(
    project: Path, call_tool: Any
) -> None:
    (project / "a").write_bytes(b"\0")
    call_tool(Read, file_path="a")
    assert code(call_tool, file_path="a", content="x") == "binary"
    with pytest.raises(InvalidInput):
        call_tool(Write, file_path="new", content="\ud800")
    assert not (project / "new").exists()


def test_an_empty_content_makes_an_empty_file(project: Path, call_tool: Any) -> None:
    call_tool(Write, file_path="a", content="")
    assert (project / "a").read_bytes() == b""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"", b"a\n"),
        (b"a\n", b""),
        (b"a\nb\nc\n", b"a\nx\nc\n"),
        (b"a\nb\n", b"a\nb\nc\n"),
        (b"b\nc\n", b"a\nb\nc\n"),
        (b"a\na\na\n", b"a\na\n"),
        (b"a", b"a\n"),
        (b"abc\nabd\n", b"abd\n"),
        (b"same", b"same"),
    ],
)
def test_the_difference_of_two_contents_turns_one_into_the_other(old: bytes, new: bytes) -> None:
    result = old
    for each in reversed(replacement_between(old, new)):
        result = result[: each.start] + each.new + result[each.end :]
    assert result == new
