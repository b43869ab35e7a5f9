"""Streams as a broken or hostile engine could send them: nothing outside changes, nothing grows."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.workspace.carry.test_tree_stream import packed

from sandboxed_tools.workspace.carry.stream import BadStream, Reader
from sandboxed_tools.workspace.carry.unpack import Budget, OverBudget, unpack
from sandboxed_tools.workspace.cursor import TreeMoved
from sandboxed_tools.workspace.remove import remove_tree

TOP = b"d" + b"\0\0" + b"\0"


def text(value: bytes) -> bytes:
    return struct.pack(">H", len(value)) + value


def folder(name: bytes, *names: bytes, lists: bool = False) -> bytes:
    listing = struct.pack(">I", len(names)) + b"".join(map(text, names)) if lists else b""
    return b"d" + text(name) + bytes([lists]) + listing


def leave(mode: int = 0o755) -> bytes:
    return b"u" + struct.pack(">Iq", mode, 0)


def file(
    name: bytes,
    data: bytes = b"data",
    *,
    mode: int = 0o644,
    size: int | None = None,
    at: int = 0,
    linked: bool = False,
) -> bytes:
    head = b"f" + text(name) + bytes([linked]) + struct.pack(">Iq", mode, 0)
    head += struct.pack(">Q", len(data) if size is None else size)
    extent = struct.pack(">QI", at, len(data)) + data if data else b""
    return head + extent + struct.pack(">QI", 0, 0)


def symlink(name: bytes, target: bytes) -> bytes:
    return b"l" + text(name) + struct.pack(">q", 0) + text(target)


def link(name: bytes, number: int) -> bytes:
    return b"h" + text(name) + struct.pack(">I", number)


def special(name: bytes, mode: int) -> bytes:
    return b"s" + text(name) + struct.pack(">I", mode)


def tree_of(*records: bytes) -> bytes:
    return TOP + b"".join(records) + leave() + b"e"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy with something in it, beside something that must stay as it is."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    folder = tmp_path / "copy"
    (folder / "here").mkdir(parents=True)
    (folder / "here" / "old").write_text("old")
    (folder / "out").symlink_to("../outside")
    return folder


def receive(stream: bytes, copy: Path, *, entries: int = 100, content: int = 100_000) -> None:
    fd = os.open(copy, os.O_RDONLY | os.O_DIRECTORY)
    try:
        unpack(Reader(io.BytesIO(stream).read), fd, budget=Budget(entries, content, entries))
    finally:
        os.close(fd)


def assert_outside_is_untouched(copy: Path) -> None:
    outside = copy.parent / "outside"
    assert sorted(path.name for path in copy.parent.iterdir()) == ["copy", "outside"]
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == "secret"
    assert (outside / "secret").stat().st_nlink == 1


BAD_NAMES = (b"", b".", b"..", b"a/b", b"/etc/passwd", b"../x", b"a\0b", b"x" * 256)


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("record", [folder, file, lambda name: symlink(name, b"x")])
def test_a_name_that_leads_elsewhere_is_refused(copy: Path, name: bytes, record: object) -> None:
    assert callable(record)
    with pytest.raises(BadStream):
        receive(tree_of(record(name)), copy)
    assert_outside_is_untouched(copy)


@pytest.mark.parametrize(
    "records",
    [
        # A link of the stream, and one that was there, as a folder.
        [symlink(b"l", b"../outside"), folder(b"l"), file(b"secret"), leave()],
        [folder(b"l"), leave(), symlink(b"l", b"../outside")],
        [folder(b"d"), file(b"f", linked=True), leave(), symlink(b"d", b"/etc"), link(b"x", 0)],
        [file(b"twice"), file(b"twice")],
        [link(b"x", 0)],
        [file(b"f"), link(b"x", 0)],
        [file(b"f", linked=True), link(b"x", 1)],
        [file(b"f", linked=True), link(b"x", 2**32 - 1)],
        [special(b"null", stat.S_IFCHR | 0o666)],
        [special(b"disk", stat.S_IFBLK | 0o666)],
        [special(b"file", stat.S_IFREG | 0o666)],
        [symlink(b"l", b"")],
        [symlink(b"l", b"a\0b")],
        [symlink(b"l", b"x" * 4096)],
        [file(b"f", size=2**63)],
        [file(b"f", size=2**64 - 1)],
        [file(b"f", b"data", size=3)],
        [file(b"f", b"data", size=2**62, at=2**62)],
        [file(b"f", b"data", size=10, at=2**64 - 2)],
        [file(b"f", b"x" * (256 * 1024 + 1))],
        [leave(), leave()],
        [b"z"],
        [b"e"],
        [b"d" + text(b"x") + b"\2"],
        [folder(b"here", b"old", b"missing", lists=True), leave()],
        [folder(b"here", b"..", lists=True), leave()],
        [folder(b"here", b"old", lists=True), file(b"unlisted"), leave()],
        [b"x" + text(b"\x1b[31mno more")],
    ],
)
def test_what_no_packer_says_is_refused(copy: Path, records: list[bytes]) -> None:
    with pytest.raises((BadStream, OverBudget)):
        receive(tree_of(*records), copy)
    assert_outside_is_untouched(copy)


def test_a_link_that_was_there_is_replaced_and_not_followed(copy: Path) -> None:
    receive(tree_of(folder(b"out"), file(b"secret", b"mine"), leave()), copy)
    assert (copy / "out" / "secret").read_text() == "mine"
    assert not (copy / "out").is_symlink()
    assert_outside_is_untouched(copy)


def test_a_file_replaces_the_link_itself(copy: Path) -> None:
    receive(tree_of(file(b"out", b"mine")), copy)
    assert (copy / "out").read_text() == "mine"
    assert_outside_is_untouched(copy)


def test_an_announced_gigabyte_costs_nothing_before_it_comes(copy: Path) -> None:
    for records in (
        struct.pack(">BHB", ord("d"), 0, 1) + struct.pack(">I", 2**32 - 1),
        TOP + b"f" + text(b"f") + b"\0" + struct.pack(">IqQQI", 0o644, 0, 2**40, 0, 2**32 - 1),
    ):
        with pytest.raises((BadStream, OverBudget)):
            receive(records, copy)


def test_endless_entries_bytes_and_depth_end(copy: Path) -> None:
    with pytest.raises(OverBudget):
        receive(tree_of(*(file(b"%d" % number, b"") for number in range(101))), copy)
    with pytest.raises(OverBudget):
        receive(tree_of(file(b"big", b"x" * 200_000)), copy)
    with pytest.raises(OverBudget):
        receive(TOP + folder(b"d") * 101, copy)


def test_a_sparse_bomb_takes_no_space(copy: Path) -> None:
    receive(tree_of(file(b"bomb", b"", size=2**43)), copy)
    assert (copy / "bomb").stat().st_blocks == 0


def test_mode_bits_beyond_modes_are_dropped(copy: Path) -> None:
    receive(tree_of(file(b"f", mode=0xFFFFFFFF)), copy)
    assert stat.S_ISREG((copy / "f").stat().st_mode)


SEED = tree_of(
    folder(b"here", b"old", b"new", lists=True),
    file(b"new", b"some data", linked=True),
    leave(),
    folder(b"d"),
    symlink(b"l", b"../../outside"),
    special(b"p", stat.S_IFIFO | 0o600),
    leave(0),
    link(b"hard", 0),
)


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(SEED) - 1), st.integers(0, 2), st.binary(max_size=4)),
        min_size=1,
        max_size=4,
    )
)
def test_a_damaged_stream_is_taken_or_refused_and_harms_nothing(
    tmp_path: Path, edits: list[tuple[int, int, bytes]]
) -> None:
    stream = bytearray(SEED)
    for at, drop, insert in edits:
        stream[at : at + drop] = insert
    outside = tmp_path / "outside"
    copy = tmp_path / "copy"
    remove_tree(copy)
    outside.mkdir(exist_ok=True)
    (outside / "secret").write_text("secret")
    (copy / "here").mkdir(parents=True)
    (copy / "here" / "old").write_text("old")
    with contextlib.suppress(BadStream, OverBudget, OSError, TreeMoved):
        receive(bytes(stream), copy)
    assert_outside_is_untouched(copy)


def test_the_seed_is_a_good_stream(copy: Path) -> None:
    receive(SEED, copy)
    assert (copy / "hard").stat().st_ino == (copy / "here" / "new").stat().st_ino
    assert packed(copy)
