"""A tree that was sent is the tree that arrives, and what was changed in it comes back."""

from __future__ import annotations

import io
import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.workspace.changes.conftest import picture

from sandboxed_tools.workspace.carry.pack import IsKnown, pack
from sandboxed_tools.workspace.carry.stream import CHUNK_BYTES, BadStream, Reader, Writer
from sandboxed_tools.workspace.carry.unpack import Budget, OverBudget, unpack
from sandboxed_tools.workspace.remove import remove_tree

PLENTY = 2**40


def packed(tree: Path, *, is_known: IsKnown | None = None) -> bytes:
    out = io.BytesIO()
    fd = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)
    try:
        pack(fd, Writer(out.write), is_known=is_known)
    finally:
        os.close(fd)
    return out.getvalue()


def unpacked(
    stream: bytes,
    tree: Path,
    *,
    budget: Budget | None = None,
    owner: tuple[int, int] | None = None,
) -> None:
    fd = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)
    is_empty = not os.listdir(fd)
    budget = budget or Budget(PLENTY, PLENTY, PLENTY)
    try:
        unpack(Reader(io.BytesIO(stream).read), fd, budget=budget, owner=owner, is_empty=is_empty)
    finally:
        os.close(fd)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "target"
    folder.mkdir()
    yield folder
    remove_tree(folder)


def test_kinds_modes_times_and_contents_arrive(source: Path, target: Path) -> None:
    (source / "empty").touch()
    (source / "folder").mkdir(mode=0o750)
    (source / "folder" / "text").write_text("text")
    (source / "folder" / "text").chmod(0o604)
    (source / "nothing inside").mkdir()
    (source / "big").write_bytes(os.urandom(3 * CHUNK_BYTES + 17))
    (source / "link").symlink_to("/etc/passwd")
    (source / "dangling").symlink_to("no where")
    os.utime(source / "folder" / "text", ns=(1, 123_456_789_123_456_789))
    os.utime(source / "link", ns=(1, 2_000_000_001), follow_symlinks=False)
    os.utime(source / "folder", ns=(1, 3_000_000_001))
    source.chmod(0o711)
    unpacked(packed(source), target)
    assert picture(target) == picture(source)


def test_names_of_any_bytes_and_of_255_of_them_arrive(source: Path, target: Path) -> None:
    names = [b"\xff\xfe", b"new\nline", b"-rf", b"\x01", b"\"quotes'", b"n" * 255, b" ", b"..."]
    top = os.fsencode(source)
    for name in names:
        os.mkdir(top + b"/d" + name[:200])
        with open(top + b"/d" + name[:200] + b"/" + name, "wb") as file:
            file.write(name)
    unpacked(packed(source), target)
    assert picture(target) == picture(source)


def test_hard_links_arrive_as_links(source: Path, target: Path) -> None:
    (source / "a").mkdir()
    (source / "a" / "one").write_text("same")
    os.link(source / "a" / "one", source / "two")
    os.link(source / "a" / "one", source / "a" / "three")
    unpacked(packed(source), target)
    inodes = {os.stat(target / name).st_ino for name in ("a/one", "two", "a/three")}
    assert len(inodes) == 1
    assert (target / "two").stat().st_nlink == 3


def test_a_sparse_terabyte_arrives_sparse(source: Path, target: Path) -> None:
    with (source / "sparse").open("wb") as file:
        file.truncate(2**40)
        file.seek(2**39)
        file.write(b"middle")
    stream = packed(source)
    assert len(stream) < 4 * CHUNK_BYTES
    unpacked(stream, target)
    found = (target / "sparse").stat()
    assert found.st_size == 2**40
    assert found.st_blocks * 512 < 2**20
    with (target / "sparse").open("rb") as file:
        file.seek(2**39)
        assert file.read(6) == b"middle"


def test_three_hundred_levels_with_links_at_the_bottom_arrive(source: Path, target: Path) -> None:
    script = """
    for i in $(seq 300); do mkdir "level-$i-with-a-long-name"; cd "level-$i-with-a-long-name"; done
    echo deep >file; ln file link
    """
    subprocess.run(["bash", "-c", script], cwd=source, check=True)
    unpacked(packed(source), target)
    find = ["find", ".", "-printf", "%y %f %s\\n"]
    there, here = (
        subprocess.run(find, cwd=tree, check=True, capture_output=True).stdout
        for tree in (source, target)
    )
    files = [line for line in there.splitlines() if line.startswith(b"f")]
    assert len(files) == 2
    assert [line for line in here.splitlines() if line.startswith(b"f")] == files
    assert here.count(b"\n") == there.count(b"\n")
    remove_tree(source)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
def test_everything_that_arrives_belongs_to_the_owner(source: Path, target: Path) -> None:
    (source / "folder").mkdir()
    (source / "folder" / "file").touch()
    (source / "link").symlink_to("folder")
    os.mkfifo(source / "fifo")
    unpacked(packed(source), target, owner=(4321, 8765))
    owners = {(info.st_uid, info.st_gid) for info in (path.lstat() for path in target.rglob("*"))}
    assert owners == {(4321, 8765)}


def test_fifos_and_sockets_arrive_so_that_the_check_can_refuse_them(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(source / "fifo")
    monkeypatch.chdir(source)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
    unpacked(packed(source), target)
    assert stat.S_ISFIFO((target / "fifo").lstat().st_mode)
    assert stat.S_ISSOCK((target / "socket").lstat().st_mode)


def test_an_empty_tree_arrives_empty(source: Path, target: Path) -> None:
    unpacked(packed(source), target)
    assert list(target.iterdir()) == []


def test_only_what_is_not_known_comes_and_what_is_gone_goes(source: Path, target: Path) -> None:
    for name in ("kept", "changed", "gone", "becomes a folder"):
        (source / name).write_text(name * 1000)
    (source / "quiet" / "below").mkdir(parents=True)
    (source / "quiet" / "below" / "file").write_text("quiet" * 1000)
    (source / "folder").mkdir()
    (source / "folder" / "inside").touch()
    unpacked(packed(source), target)
    kept = (target / "kept").stat().st_ino
    known = {info.st_ino: info.st_ctime_ns for info in (p.lstat() for p in source.rglob("*"))}
    known[source.stat().st_ino] = source.stat().st_ctime_ns

    (source / "changed").write_text("other")
    (source / "gone").unlink()
    (source / "becomes a folder").unlink()
    (source / "becomes a folder").mkdir()
    (source / "becomes a folder" / "new").write_text("new")
    remove_tree(source / "folder")
    (source / "folder").write_text("a file now")
    (source / "quiet" / "below" / "another").write_text("another")

    stream = packed(source, is_known=lambda _, info: known.get(info.st_ino) == info.st_ctime_ns)
    assert len(stream) < 1500
    unpacked(stream, target)
    assert picture(target, times=False) == picture(source, times=False)
    assert (target / "kept").stat().st_ino == kept


def test_a_stream_that_ends_anywhere_is_refused(source: Path, tmp_path: Path) -> None:
    (source / "folder").mkdir()
    (source / "folder" / "file").write_text("text")
    (source / "link").symlink_to("x")
    os.link(source / "folder" / "file", source / "hard")
    whole = packed(source)
    for end in range(len(whole)):
        target = tmp_path / f"t{end}"
        target.mkdir()
        with pytest.raises(BadStream):
            unpacked(whole[:end], target)


def test_what_comes_is_bounded(source: Path, tmp_path: Path) -> None:
    for number in range(50):
        (source / str(number)).write_bytes(b"x" * 1000)
    stream = packed(source)
    budgets = [Budget(49, PLENTY, PLENTY), Budget(PLENTY, 40_000, PLENTY)]
    for number, budget in enumerate(budgets):
        target = tmp_path / f"t{number}"
        target.mkdir()
        with pytest.raises(OverBudget):
            unpacked(stream, target, budget=budget)
    target = tmp_path / "enough"
    target.mkdir()
    unpacked(stream, target, budget=Budget(50, 60_000, 0))
