"""A copied tree is the same tree, whatever hostile hands have put into it."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sandboxed_tools.workspace.copy_tree import CopyReport, copy_tree
from sandboxed_tools.workspace.remove import remove_tree

OWNER = (os.geteuid(), os.getegid())


def copied(source: Path, target: Path) -> CopyReport:
    target.mkdir(mode=0o700)
    fd = os.open(source, os.O_PATH | os.O_DIRECTORY)
    try:
        return copy_tree(fd, target, owner=OWNER)
    finally:
        os.close(fd)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    root.mkdir()
    return root


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target"


def test_keeps_contents_modes_times_and_links(source: Path, target: Path) -> None:
    (source / "sub").mkdir()
    (source / "sub" / "file").write_bytes(b"x" * 100_000)
    (source / "sub" / "file").chmod(0o640)
    (source / "dangling").symlink_to("/nowhere/at/all")
    os.utime(source / "sub" / "file", ns=(1, 1_500_000_000_123_456_789))
    os.utime(source / "dangling", ns=(2, 3), follow_symlinks=False)
    (source / "sub").chmod(0o711)
    os.utime(source / "sub", ns=(4, 5))
    report = copied(source, target)
    assert (target / "sub" / "file").read_bytes() == b"x" * 100_000
    for name in ("sub/file", "dangling", "sub", "."):
        old, new = (source / name).lstat(), (target / name).lstat()
        assert (new.st_mode, new.st_mtime_ns) == (old.st_mode, old.st_mtime_ns)
    assert os.readlink(target / "dangling") == "/nowhere/at/all"
    assert (report.entries, report.copied_bytes, report.skipped) == (3, 100_000, [])


def test_a_sparse_terabyte_costs_nothing(source: Path, target: Path) -> None:
    with (source / "sparse").open("wb") as file:
        file.seek(2**40)
        file.write(b"end")
        file.seek(2**39)
        file.write(b"middle")
    report = copied(source, target)
    copy = target / "sparse"
    assert copy.stat().st_size == 2**40 + 3
    assert copy.stat().st_blocks * 512 < 2**20
    assert report.copied_bytes < 2**20
    with copy.open("rb") as file:
        file.seek(2**39)
        assert file.read(6) == b"middle"


def test_a_file_that_is_all_hole_keeps_its_size(source: Path, target: Path) -> None:
    (source / "hole").touch()
    os.truncate(source / "hole", 10_000_000)
    copied(source, target)
    assert (target / "hole").stat().st_size == 10_000_000


def test_hard_links_stay_links_among_themselves_and_not_to_the_original(
    source: Path, target: Path
) -> None:
    (source / "one").write_text("x")
    (source / "far" / "away").mkdir(parents=True)
    os.link(source / "one", source / "far" / "away" / "two")
    os.link(source / "one", source.parent / "outside")
    copied(source, target)
    inode = (target / "one").stat().st_ino
    assert (target / "far" / "away" / "two").stat().st_ino == inode
    assert (target / "one").stat().st_nlink == 2
    assert inode != (source / "one").stat().st_ino


def test_what_is_neither_file_nor_folder_nor_link_is_left_out_and_named(
    source: Path, target: Path
) -> None:
    os.mkfifo(source / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(source / "socket"))
        report = copied(source, target)
    assert list(target.iterdir()) == []
    assert sorted(report.skipped) == [b"fifo", b"socket"]


def test_a_file_under_a_lease_does_not_stop_the_copy(source: Path, target: Path) -> None:
    (source / "leased").write_text("x")
    (source / "other").write_text("y")
    fd = os.open(source / "leased", os.O_RDONLY)
    previous = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        report = copied(source, target)
    finally:
        signal.signal(signal.SIGIO, previous)
        os.close(fd)
    assert report.skipped == [b"leased"]
    assert (target / "other").read_text() == "y"


def test_set_id_bits_are_dropped_and_the_sticky_bit_kept(source: Path, target: Path) -> None:
    (source / "program").touch()
    (source / "program").chmod(0o6755)
    (source / "folder").mkdir()
    (source / "folder").chmod(0o3777)
    copied(source, target)
    assert stat.S_IMODE((target / "program").stat().st_mode) == 0o755
    assert stat.S_IMODE((target / "folder").stat().st_mode) == 0o1777


def test_links_to_folders_are_not_entered(source: Path, target: Path) -> None:
    (source / "self").symlink_to(".")
    (source / "root").symlink_to("/")
    assert copied(source, target).entries == 2


def test_hostile_names_round_trip(source: Path, target: Path) -> None:
    names = [b"new\nline", b"-rf", b"\xff\xfe", b"a" * 255, b"...", b" ", b"\\", b"\x1b[31m"]
    for name in names:
        (source / os.fsdecode(name)).write_bytes(name)
    copied(source, target)
    assert sorted(os.listdir(os.fsencode(target))) == sorted(names)


def test_five_thousand_levels_are_copied_with_few_descriptors(source: Path, target: Path) -> None:
    code = """
import os, resource, sys
from sandboxed_tools.workspace.copy_tree import copy_tree
os.chdir(sys.argv[1])
for _ in range(5000):
    os.mkdir("d")
    os.chdir("d")
with open("bottom", "w") as file:
    file.write("here")
os.chdir("/")
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
fd = os.open(sys.argv[1], os.O_PATH)
print(copy_tree(fd, sys.argv[2], owner=(os.geteuid(), os.getegid())).entries)
os.chdir(sys.argv[2])
for _ in range(5000):
    os.chdir("d")
print(open("bottom").read())
"""
    target.mkdir()
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, str(source), str(target)],
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert done.stdout.split() == ["5001", "here"], done.stderr
    finally:
        remove_tree(source / "d")
        remove_tree(target)
