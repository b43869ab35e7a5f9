"""Edit: eight validations in order, and every byte that was not asked for stays."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sandboxed_tools.builtin.edit import Edit
from sandboxed_tools.builtin.read import Read
from sandboxed_tools.builtin.write import Write
from sandboxed_tools.errors import InvalidInput, PathRefused
from sandboxed_tools.workspace import FileStateCache, WorkspaceRoot
from sandboxed_tools.workspace.edit_file import EditRequest, edit_file
from sandboxed_tools.workspace.edit_text import content_of, count_matches, file_bytes, replaced
from sandboxed_tools.workspace.journal_record import BeforeImage
from sandboxed_tools.workspace.read_file import TextContent, read_file
from sandboxed_tools.workspace.spelling import Parts
from sandboxed_tools.workspace.text import Encoding, encode, encoding_of


@pytest.fixture
def edit(call_tool: Any) -> Any:
    """Read the file, then edit it."""

    def run(path: str, old: str, new: str, *, read: bool = True, **more: Any) -> Any:
        if read:
            call_tool(Read, file_path=path)
        return call_tool(Edit, file_path=path, old_string=old, new_string=new, **more)

    return run


def code(edit: Any, *args: Any, **more: Any) -> str:
    try:
        edit(*args, **more)
    except InvalidInput as error:
        return error.fields[0].code
    except PathRefused as error:
        return error.reason
    return "nothing was refused"


def test_one_text_is_replaced_and_the_answer_is_a_diff(project: Path, edit: Any) -> None:
    (project / "a").write_text("one\ntwo\nthree\n")
    written = edit("a", "two", "2")
    assert (project / "a").read_text() == "one\n2\nthree\n"
    assert written.diff.splitlines() == [
        *("--- a", "+++ a", "@@ -1,3 +1,3 @@", " one", "-two", "+2", " three")
    ]
    assert "Changed a in 1 place." in Edit.to_model_text(written)


def test_two_edits_in_a_row_need_no_second_read(project: Path, edit: Any) -> None:
    (project / "a").write_text("one\n")
    edit("a", "one", "two")
    edit("a", "two", "three", read=False)
    assert (project / "a").read_text() == "three\n"


# ---- the eight validations


def test_1_an_edit_that_changes_nothing_is_refused(project: Path, edit: Any) -> None:
    (project / "a").write_text("x")
    assert code(edit, "a", "x", "x") == "no_change"
    assert code(edit, "/etc/passwd", "x", "x", read=False) == "no_change"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/etc/hosts", "outside"),
        ("../outside/secret", "outside"),
        ("a/../../outside/secret", "dotdot"),
        ("a\0b", "nul"),
        ("/workspace-evil/x", "outside"),
    ],
)
def test_2_a_path_outside_is_refused(edit: Any, path: str, reason: str) -> None:
    assert code(edit, path, "x", "y", read=False) == reason
    assert code(edit, path, "", "y", read=False) == reason


def test_3_a_missing_file_is_refused_with_near_names(project: Path, edit: Any) -> None:
    (project / "src").mkdir()
    (project / "src" / "parser.py").touch()
    with pytest.raises(PathRefused, match=r"Did you mean 'src/parser\.py'") as refused:
        edit("src/Parsr.py", "x", "y", read=False)
    assert refused.value.reason == "missing"
    assert code(edit, "no/such/folder", "x", "y", read=False) == "missing"


def test_3_an_empty_old_string_makes_a_new_file_and_never_replaces_one(
    project: Path, edit: Any
) -> None:
    written = edit("deep/er/new.txt", "", "hello\n", read=False)
    assert written.is_new
    assert (project / "deep" / "er" / "new.txt").read_text() == "hello\n"
    assert code(edit, "deep/er/new.txt", "", "other", read=False) == "exists"


@pytest.mark.parametrize("kind", ["folder", "fifo", "socket", "workspace"])
def test_3_what_is_no_regular_file_is_refused(project: Path, edit: Any, kind: str) -> None:
    (project / "folder").mkdir()
    os.mkfifo(project / "fifo")
    os.mknod(project / "socket", 0o140644)
    path = "/workspace" if kind == "workspace" else kind
    assert code(edit, path, "x", "y", read=False) in ("folder", "not_regular")
    assert code(edit, path, "", "y", read=False) in ("folder", "not_regular")


def test_3_links_are_not_written_through(project: Path, edit: Any) -> None:
    (project / "real").write_text("x\n")
    os.symlink("real", project / "inside")
    os.symlink("../outside/secret", project / "out")
    os.symlink("../outside", project / "folder")
    os.symlink("../outside/planted", project / "dangling")
    with pytest.raises(PathRefused, match="true name 'real'"):
        edit("inside", "x", "y")
    for path in ("out", "folder/secret", "dangling", "folder/new"):
        for old in ("secret", ""):
            assert code(edit, path, old, "y", read=False) in ("link", "missing", "not_folder")
    assert (project.parent / "outside" / "secret").read_text() == "secret\n"
    assert os.listdir(project.parent / "outside") == ["secret"]


def test_4_binary_files_notebooks_and_huge_files_are_refused(project: Path, edit: Any) -> None:
    (project / "binary").write_bytes(b"a\0b")
    (project / "a.ipynb").write_text("{}")
    with open(project / "huge", "wb") as file:
        file.write(b"text\n" * 20_000)
        file.truncate(2**40)
    assert code(edit, "binary", "a", "b") == "binary"
    assert code(edit, "a.ipynb", "{}", "[]") == "notebook"
    assert code(edit, "huge", "text", "b") == "too_large"


def test_5_a_file_that_was_not_read_is_refused(project: Path, edit: Any) -> None:
    (project / "a").write_text("x")
    assert code(edit, "a", "x", "y", read=False) == "not_read"


def test_6_a_file_that_changed_since_is_refused(project: Path, edit: Any, call_tool: Any) -> None:
    (project / "a").write_text("x1")
    call_tool(Read, file_path="a")
    (project / "a").write_text("x2")
    assert code(edit, "a", "x", "y", read=False) == "changed"
    call_tool(Read, file_path="a")
    (project / "b").write_text("x2")
    (project / "b").rename(project / "a")
    edit("a", "x", "y", read=False)
    assert (project / "a").read_text() == "y2"


@pytest.mark.parametrize(
    ("content", "old", "hint"),
    [
        ("def f():\n    return  1\n", "def f():\n  return 1", "white space"),
        ("say “hello” — now\n", 'say "hello" - now', "quotes or dashes"),
        ("caf\u00e9\n", "cafe\u0301", "normalisation"),
        ("Hello World\n", "hello world", "letter case"),
        ("first line\nsecond line\n", "     1\tfirst line\n     2\tsecond line", "line numbers"),
        ("value = compute(first, second)\n", "value = compute(frist, second)", "line 1"),
        ("x\n" * 50 + "nothing alike\n", "completely different text", "Read the file again"),
    ],
)
def test_7_a_text_that_does_not_occur_is_refused_with_the_closest_place(
    project: Path, edit: Any, content: str, old: str, hint: str
) -> None:
    (project / "a").write_text(content)
    with pytest.raises(InvalidInput, match=hint) as refused:
        edit("a", old, "new")
    assert refused.value.fields[0].code == "not_found"
    assert (project / "a").read_text() == content


@pytest.mark.parametrize("line", ["a" * 190, "x", "ab" * 95, " "])
def test_7_a_hostile_file_does_not_hold_the_hint_up(project: Path, edit: Any, line: str) -> None:
    (project / "a").write_text(f"{line}\n" * (10_000_000 // (len(line) + 1)))
    assert code(edit, "a", "a" * 150 + "ba" * 20, "z") == "not_found"


def test_3_hostile_names_do_not_hold_the_near_names_up(project: Path, edit: Any) -> None:
    for number in range(3000):
        (project / ("a" * 240 + str(number))).touch()
    assert code(edit, "a" * 200 + "ba" * 20, "x", "y", read=False) == "missing"


def test_7_a_hint_cannot_command_a_terminal(project: Path, edit: Any) -> None:
    (project / "a").write_text("some  \x1b]0;t\x07 text\n")
    with pytest.raises(InvalidInput) as refused:
        edit("a", "some \x1b]0;t\x07 text", "new")
    assert "\x1b" not in str(refused.value)


def test_7_a_huge_old_string_is_answered(project: Path, edit: Any) -> None:
    (project / "a").write_text("x" * 1000)
    assert code(edit, "a", "y" * 10_000_000, "z") == "not_found"


@pytest.mark.parametrize(("content", "old"), [("a b a\n", "a"), ("aaa", "aa"), ("x\r\nx\n", "x\n")])
def test_8_a_text_that_occurs_twice_is_refused_without_replace_all(
    project: Path, edit: Any, content: str, old: str
) -> None:
    (project / "a").write_bytes(content.encode())
    assert code(edit, "a", old, "new") == "not_unique"
    edit("a", old, "new", replace_all=True)
    expected = content.replace("\r\n", "\n").replace(old, "new")
    assert (project / "a").read_bytes().replace(b"\r\n", b"\n") == expected.encode()


def test_8_the_lines_are_named(project: Path, edit: Any) -> None:
    (project / "a").write_text("x\ny\nx\n")
    with pytest.raises(InvalidInput, match="2 times in 'a' \\(lines 1, 3\\)"):
        edit("a", "x", "z")


def test_the_validations_come_in_their_order(project: Path, edit: Any) -> None:
    (project / "binary").write_bytes(b"\0")
    assert code(edit, "binary", "x", "y", read=False) == "binary"
    (project / "text").write_text("a")
    assert code(edit, "text", "missing text", "y", read=False) == "not_read"


# ---- what is kept


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"\xef\xbb\xbfhello\r\nworld\r\n", "hello\nworld", "a\nb", b"\xef\xbb\xbfa\r\nb\r\n"),
        ("hällo\n".encode("utf-16"), "ä", "ö€", "hö€llo\n".encode("utf-16")),
        (b"\xfe\xff\x00a\x00\n", "a", "b", b"\xfe\xff\x00b\x00\n"),
        (b"caf\xe9 a\n", "é a", "è b", b"caf\xe8 b\n"),
        (b"last line", "last", "first", b"first line"),
        (b"a\r\nb\nc\r", "a\nb", "x\ny", b"x\r\ny\nc\r"),
        (b"a\r\nb\nc\n", "c\n", "c\nd\n", b"a\r\nb\nc\nd\n"),
        (b"\xed\xa0\x80 x\n", "x", "y", b"\xed\xa0\x80 y\n"),
        (b"x\r\ny\r\n", "y", "y\nz", b"x\r\ny\r\nz\r\n"),
    ],
)
def test_encoding_line_ends_and_final_line_end_are_kept(
    project: Path, edit: Any, before: bytes, old: str, new: str, after: bytes
) -> None:
    (project / "a").write_bytes(before)
    edit("a", old, new)
    assert (project / "a").read_bytes() == after


def test_a_character_that_the_encoding_has_not_is_refused(project: Path, edit: Any) -> None:
    (project / "a").write_bytes(b"caf\xe9\n")
    assert code(edit, "a", "caf", "€") == "encoding"
    assert code(edit, "a", "€", "x") == "not_found"
    (project / "b").write_text("x")
    assert (project / "a").read_bytes() == b"caf\xe9\n"


def test_mode_owner_and_attributes_are_kept(project: Path, edit: Any) -> None:
    (project / "a.sh").write_text("echo 1\n")
    (project / "a.sh").chmod(0o755)
    os.setxattr(project / "a.sh", "user.note", b"kept")
    edit("a.sh", "1", "2")
    assert stat.S_IMODE((project / "a.sh").stat().st_mode) == 0o755
    assert os.getxattr(project / "a.sh", "user.note") == b"kept"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_new_files_of_a_root_client_belong_to_the_owner_of_the_workspace(
    tmp_path: Path, cache: FileStateCache
) -> None:
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 12345, 23456)
    with WorkspaceRoot.open(tmp_path / "theirs") as root:
        edit_file(root, "new/file", EditRequest("", "x"), cache=cache)
    for path in ("new", "new/file"):
        info = (tmp_path / "theirs" / path).stat()
        assert (info.st_uid, info.st_gid) == (12345, 23456)


def test_a_result_that_would_be_huge_is_refused_before_it_is_built(
    project: Path, edit: Any
) -> None:
    (project / "a").write_text("x" * 1_000_000)
    assert code(edit, "a", "x", "y" * 1_000_000, replace_all=True) == "too_large"


def test_a_million_places_are_replaced_with_a_bounded_diff(project: Path, edit: Any) -> None:
    (project / "a").write_text("x\n" * 1_000_000)
    written = edit("a", "x", "yy", replace_all=True)
    assert written.replacements == 1_000_000
    assert (project / "a").read_bytes() == b"yy\n" * 1_000_000
    assert len(written.diff) < 200_000


def test_a_journal_is_given_the_old_content_before_the_change(
    root: WorkspaceRoot, project: Path, cache: FileStateCache, call_tool: Any
) -> None:
    kept: list[tuple[Parts, BeforeImage | None, str]] = []

    class Kept:
        def record(self, path: Parts, before: BeforeImage | None) -> None:
            now = (project / "a").read_text() if (project / "a").exists() else "missing"
            kept.append((path, before, now))

        def wrote(self, path: Parts, info: os.stat_result, *, made: object) -> None:
            assert info.st_ino == (project / "a").stat().st_ino

    edit_file(root, "a", EditRequest("", "old"), cache=cache, journal=Kept())
    made = (project / "a").stat()
    edit_file(root, "a", EditRequest("old", "new"), cache=cache, journal=Kept())
    assert kept == [
        ((b"a",), None, "missing"),
        ((b"a",), BeforeImage(b"old", 0o644, made.st_mtime_ns), "old"),
    ]


def test_a_journal_that_refuses_prevents_the_change(
    root: WorkspaceRoot, project: Path, cache: FileStateCache
) -> None:
    class Full:
        def record(self, path: Parts, before: BeforeImage | None) -> None:
            raise OSError("the journal is full")

        def wrote(self, path: Parts, info: os.stat_result, *, made: object) -> None:
            raise AssertionError("nothing is written")

    with pytest.raises(OSError, match="journal is full"):
        edit_file(root, "a", EditRequest("", "x"), cache=cache, journal=Full())
    assert not (project / "a").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_is_refused_in_words(tmp_path: Path, cache: FileStateCache) -> None:
    (tmp_path / "small").mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", tmp_path / "small"], check=True
    )
    try:
        with WorkspaceRoot.open(tmp_path / "small") as root:
            edit_file(root, "a", EditRequest("", "x\n"), cache=cache)
            for path, old in (("a", "x"), ("new", "")):
                with pytest.raises(PathRefused) as refused:
                    edit_file(root, path, EditRequest(old, "y" * 100_000), cache=cache)
                assert refused.value.reason == "disk_full"
            edit_file(root, "a", EditRequest("x", "z"), cache=cache)
        assert os.listdir(tmp_path / "small") == ["a"]
    finally:
        subprocess.run(["umount", tmp_path / "small"], check=True)


def test_every_name_that_a_file_can_have_is_edited(project: Path, edit: Any) -> None:
    names = [
        b"a\nb",
        b"-rf",
        b" lead",
        b"\xff\xfe",
        b"*",
        b"\x1b]0;t\x07",
        b"...",
        b"~",
        b"x" * 255,
    ]
    for name in [*names, "e\u0301".encode(), "é".encode()]:
        Path(os.fsdecode(os.fsencode(project) + b"/" + name)).write_text("x\n")
        written = edit(os.fsdecode(name), "x", "y")
        assert "\x1b" not in Edit.render_result(written)
        assert "\x1b" not in Edit.to_model_text(written)
    assert len(os.listdir(project)) == len(names) + 2


def test_a_whole_new_content_of_megabytes_has_a_bounded_diff(project: Path, call_tool: Any) -> None:
    (project / "a").write_text("old\n" * 1_000_000)
    call_tool(Read, file_path="a")
    written = call_tool(Write, file_path="a", content="new\n" * 1_000_000)
    assert len(written.diff) < 200_000
    assert written.diff.splitlines()[2] == "@@ -1,1000000 +1,1000000 @@"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_read_only_mount_is_refused_in_words(tmp_path: Path, cache: FileStateCache) -> None:
    (tmp_path / "ro").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", tmp_path / "ro"], check=True)
    try:
        (tmp_path / "ro" / "a").write_text("x")
        subprocess.run(["mount", "-o", "remount,ro", tmp_path / "ro"], check=True)
        with WorkspaceRoot.open(tmp_path / "ro") as root:
            read_file(root, "a", cache=cache)
            for path, old in (("a", "x"), ("new", ""), ("new/er", "")):
                with pytest.raises(PathRefused) as refused:
                    edit_file(root, path, EditRequest(old, "y"), cache=cache)
                assert refused.value.reason == "read_only"
    finally:
        subprocess.run(["umount", tmp_path / "ro"], check=True)


def test_a_lock_on_the_file_does_not_hold_an_edit_up(project: Path, edit: Any) -> None:
    (project / "a").write_text("x")
    code_of_holder = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'r+')\n"
        "fcntl.flock(file, fcntl.LOCK_EX); fcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print('locked', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code_of_holder, project / "a"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        edit("a", "x", "y")
    assert (project / "a").read_text() == "y"


@pytest.mark.timeout(900)  # ten thousand edits are as many times an fsync
def test_edits_never_write_outside_while_a_folder_is_swapped_for_a_link(
    project: Path, root: WorkspaceRoot
) -> None:
    """A process exchanges the folder with a link out, as fast as it can, while Edit writes."""
    outside = project.parent / "outside"
    (outside / "file").write_text("outside\n")
    (project / "folder").mkdir()
    (project / "folder" / "file").write_text("0\n")
    os.symlink("../outside", project / "link")
    before = sorted((p.name, p.read_bytes(), p.stat().st_ino) for p in outside.iterdir())
    swap = (
        "import ctypes, os, sys\n"
        "libc = ctypes.CDLL(None)\n"
        "os.chdir(sys.argv[1])\n"
        "print('ready', flush=True)\n"
        "while True: libc.renameat2(-100, b'folder', -100, b'link', 2)\n"
    )
    outcomes: set[str] = set()
    with subprocess.Popen([sys.executable, "-c", swap, project], stdout=subprocess.PIPE) as swapper:
        try:
            assert swapper.stdout is not None
            swapper.stdout.readline()
            for number in range(10_000):
                cache = FileStateCache()
                try:
                    seen = read_file(root, "folder/file", cache=cache)
                    assert isinstance(seen, TextContent)
                    request = EditRequest(seen.lines[0], str(number + 1))
                    edit_file(root, "folder/file", request, cache=cache)
                    if number % 10 == 0:
                        request = EditRequest("", "x")
                        edit_file(root, f"folder/new{number}", request, cache=cache)
                    outcomes.add("written")
                except PathRefused as refused:
                    outcomes.add(refused.reason)
        finally:
            swapper.kill()
    after = sorted((p.name, p.read_bytes(), p.stat().st_ino) for p in outside.iterdir())
    assert after == before
    assert "written" in outcomes
    assert outcomes & {"link", "outside", "not_folder"}


# ---- properties

TEXT = st.text(st.sampled_from("ab\né€ \t"), max_size=30)
ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "latin-1"])
LINE_ENDS = st.sampled_from(["\n", "\r\n"])


@settings(max_examples=400, deadline=None)
@given(TEXT, st.text("ab\né", min_size=1, max_size=4), TEXT, ENCODINGS, LINE_ENDS)
def test_an_edit_equals_the_obvious_replacement_on_the_decoded_text(
    text: str, old: str, new: str, encoding: Encoding, line_end: str
) -> None:
    if encoding == "latin-1":
        text, new = text.replace("€", "é") + "é", new.replace("€", "é")
    before = encode(text.replace("\n", line_end), encoding)
    assume(encoding_of(before) == encoding)
    has_line_ends = "\n" in text
    style = line_end if has_line_ends else "\n"
    expected = encode(
        text.replace("\n", "\r\n" if line_end == "\r\n" else "\n").replace(
            old.replace("\n", line_end), new.replace("\n", style)
        ),
        encoding,
    )
    content = content_of(before, encoding)
    assert file_bytes(content) == before
    assert count_matches(content, old) == text.replace("\n", line_end).count(
        old.replace("\n", line_end)
    )
    if count_matches(content, old):
        assert file_bytes(replaced(content, old, new)) == expected


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(st.text("ab", max_size=3), LINE_ENDS), max_size=8),
    st.text("ab\n", min_size=1, max_size=4),
    st.text("xy\n", max_size=4),
)
def test_in_mixed_line_ends_all_text_outside_the_places_stays_byte_by_byte(
    lines: list[tuple[str, str]], old: str, new: str
) -> None:
    before = "".join(text + end for text, end in lines).encode()
    content = content_of(before, "utf-8")
    after = replaced(content, old, new).data
    plain = before.replace(b"\r\n", b"\n").replace(old.encode(), new.encode())
    assert after.replace(b"\r\n", b"\n") == plain
    pieces = before.replace(b"\r\n", b"\n").split(old.encode())
    if len(pieces) > 1 and "\n" not in old:
        assert after.startswith(before[: before.find(old.encode())])
        assert after.endswith(before[before.rfind(old.encode()) + len(old) :])


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(TEXT, st.text("ab\n", min_size=1, max_size=3), TEXT, LINE_ENDS)
def test_the_whole_path_of_an_edit_equals_the_obvious_replacement(
    root: WorkspaceRoot, text: str, old: str, new: str, line_end: str
) -> None:
    raw = text.replace("\n", line_end)
    assume(old in text and old != new)
    (root.path / "file").write_bytes(raw.encode())
    cache = FileStateCache()
    read_file(root, "file", cache=cache)
    edit_file(root, "file", EditRequest(old, new, replace_all=True), cache=cache)
    style = line_end if "\n" in text else "\n"
    expected = raw.replace(old.replace("\n", line_end), new.replace("\n", style))
    assert (root.path / "file").read_bytes() == expected.encode()
