"""Whole-or-nothing writes on a real file system."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandboxed_tools.workspace import atomic
from sandboxed_tools.workspace.atomic import (
    Expected,
    FileChangedError,
    create_file,
    replace_file,
)


@pytest.fixture(params=["usual", "no O_TMPFILE", "no exchange"], autouse=True)
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "no O_TMPFILE":
        # O_DIRECTORY alone cannot be opened for writing: EISDIR, as on a kernel without it.
        monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)
    if request.param == "no exchange":
        monkeypatch.setattr(atomic, "try_exchange_names", lambda *_: False)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def opened(path: Path) -> Expected:
    fd = os.open(path, os.O_RDONLY)
    return Expected(fd, os.fstat(fd), path.read_bytes())


def test_a_new_file_appears_with_its_content(folder: int, tmp_path: Path) -> None:
    create_file(folder, b"new", b"content" * 100_000)
    assert (tmp_path / "new").read_bytes() == b"content" * 100_000
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) & 0o133 == 0
    assert os.listdir(tmp_path) == ["new"]


@pytest.mark.parametrize("there", ["file", "dangling link", "folder"])
def test_a_new_file_takes_nobodys_place(folder: int, tmp_path: Path, there: str) -> None:
    if there == "file":
        (tmp_path / "new").write_text("theirs")
    elif there == "folder":
        (tmp_path / "new").mkdir()
    else:
        os.symlink("../outside", tmp_path / "new")
    with pytest.raises(FileChangedError):
        create_file(folder, b"new", b"ours")
    assert os.listdir(tmp_path) == ["new"]
    assert not (tmp_path.parent / "outside").exists()


def test_mode_owner_attributes_and_acl_are_kept(folder: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    os.setxattr(path, "user.note", b"kept")
    if os.geteuid() == 0:
        os.chown(path, 12345, 23456)
    path.chmod(0o754)
    expected = opened(path)
    replace_file(folder, b"file", b"new", expected=expected)
    os.close(expected.fd)
    info = path.stat()
    assert path.read_text() == "new"
    assert stat.S_IMODE(info.st_mode) == 0o754
    assert os.getxattr(path, "user.note") == b"kept"
    if os.geteuid() == 0:
        assert (info.st_uid, info.st_gid) == (12345, 23456)
    assert os.listdir(tmp_path) == ["file"]


def test_set_id_bits_are_not_kept(folder: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o6755)
    expected = opened(path)
    replace_file(folder, b"file", b"new", expected=expected)
    os.close(expected.fd)
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


def test_another_hard_link_keeps_the_old_content(folder: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    os.link(tmp_path / "file", tmp_path / "other")
    expected = opened(tmp_path / "file")
    replace_file(folder, b"file", b"new", expected=expected)
    os.close(expected.fd)
    assert (tmp_path / "other").read_text() == "old"


def _write_in_place(path: Path) -> None:
    path.write_text("their")


def _write_in_place_at_the_same_time(path: Path) -> None:
    info = path.stat()
    path.write_text("XXX")
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def _rename_over(path: Path) -> None:
    path.with_name("theirs").write_text("old")
    path.with_name("theirs").rename(path)


def _remove(path: Path) -> None:
    path.unlink()


def _link(path: Path) -> None:
    path.unlink()
    os.symlink("../outside", path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "change",
    [
        _write_in_place,
        _write_in_place_at_the_same_time,
        _rename_over,
        _remove,
        _link,
        _folder,
    ],
)
def test_a_change_by_somebody_else_is_kept_and_reported(
    folder: int, tmp_path: Path, change: object
) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    expected = opened(path)
    assert callable(change)
    change(path)
    before = sorted((name, os.lstat(tmp_path / name).st_ino) for name in os.listdir(tmp_path))
    with pytest.raises(FileChangedError):
        replace_file(folder, b"file", b"new", expected=expected)
    os.close(expected.fd)
    after = sorted((name, os.lstat(tmp_path / name).st_ino) for name in os.listdir(tmp_path))
    assert after == before
    assert not (tmp_path.parent / "outside").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", small], check=True)
    try:
        (small / "file").write_text("old")
        fd = os.open(small, os.O_PATH | os.O_DIRECTORY)
        expected = opened(small / "file")
        with pytest.raises(OSError, match="No space"):
            replace_file(fd, b"file", b"x" * 200_000, expected=expected)
        with pytest.raises(OSError, match="No space"):
            create_file(fd, b"new", b"x" * 200_000)
        os.close(expected.fd)
        os.close(fd)
        assert os.listdir(small) == ["file"]
        assert (small / "file").read_text() == "old"
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_killed_write_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    sizes = {3_000_000: b"a", 5_000_000: b"b"}
    path = tmp_path / "file"
    path.write_bytes(b"a" * 3_000_000)
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from sandboxed_tools.workspace.atomic import Expected, replace_file\n"
        "folder = os.open(sys.argv[1], os.O_PATH)\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    for letter, size in ((b'b', 5_000_000), (b'a', 3_000_000)):\n"
        "        fd = os.open('file', os.O_RDONLY, dir_fd=folder)\n"
        "        info = os.fstat(fd)\n"
        "        old = os.read(fd, info.st_size)\n"
        "        expected = Expected(fd, info, old)\n"
        "        replace_file(folder, b'file', letter * size, expected=expected)\n"
        "        os.close(fd)\n"
    )
    for attempt in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            # Not a wait for anything: the moment of the kill is what varies.
            deadline = time.monotonic() + 0.013 * attempt
            while time.monotonic() < deadline:
                os.sched_yield()
            writer.send_signal(signal.SIGKILL)
        data = path.read_bytes()
        assert data == sizes[len(data)] * len(data)
