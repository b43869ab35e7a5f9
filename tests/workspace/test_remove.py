"""Deleting hostile trees, on a real file system."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sandboxed_tools.workspace import remove
from sandboxed_tools.workspace.remove import remove_tree


@pytest.fixture(params=["openat2", "without openat2"], autouse=True)
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without openat2":
        monkeypatch.setattr(remove, "openat2_available", lambda: False)


def nest(folder: Path, depth: int, *, mode: int = 0o755) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=fd)
        child = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=child))
        os.fchmod(fd, mode)
        os.close(fd)
        fd = child
    os.close(fd)


def test_five_thousand_levels_of_folders_are_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    nest(top, 5000)
    remove_tree(top)
    assert not os.path.lexists(top)


def test_few_descriptors_are_enough_for_any_depth(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    nest(top, 300)
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64));"
        "from sandboxed_tools.workspace.remove import remove_tree; remove_tree(sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", code, str(top)], check=True, timeout=60)
    assert not top.exists()


def test_folders_of_mode_000_are_removed_without_being_root(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents:
        if parent.name.startswith(("pytest-", "popen-")):
            parent.chmod(0o755)
    top = tmp_path / "top"
    top.mkdir()
    nest(top, 40, mode=0)
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", "12345:12345", str(top)], check=True)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(12345, 12345, 12345)
                os.setresuid(12345, 12345, 12345)
            remove_tree(top)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not top.exists()


def test_links_are_removed_and_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    top = tmp_path / "top"
    top.mkdir()
    (top / "folder").symlink_to(outside)
    (top / "file").symlink_to(outside / "kept")
    (top / "loop").symlink_to(".")
    (top / "dangling").symlink_to("nowhere")
    remove_tree(top)
    assert not top.exists()
    assert (outside / "kept").read_text() == "kept"


def test_a_link_given_as_the_top_is_itself_removed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").touch()
    (tmp_path / "link").symlink_to("outside")
    remove_tree(tmp_path / "link")
    assert not os.path.lexists(tmp_path / "link")
    assert (tmp_path / "outside" / "kept").exists()


def test_fifos_sockets_and_odd_names_are_removed(tmp_path: Path) -> None:
    top = os.fsencode(tmp_path) + b"/top"
    os.mkdir(top)
    os.mkfifo(top + b"/fifo")
    os.mknod(top + b"/socket", 0o140644)
    for name in (b"a\nb", b"-rf", b"\xff\xfe", b"\x1b]0;t\x07", b"*", b"x" * 255):
        os.mkdir(top + b"/" + name)
        os.close(os.open(top + b"/" + name + b"/" + name, os.O_CREAT | os.O_WRONLY))
    remove_tree(top)
    assert not os.path.lexists(top)


def test_what_does_not_exist_is_no_error(tmp_path: Path) -> None:
    remove_tree(tmp_path / "missing")
    remove_tree(tmp_path / "missing" / "below")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["/", "//", ".", "..", "folder/.."])
def test_a_tree_without_a_name_of_its_own_is_refused(path: str) -> None:
    with pytest.raises(OSError, match="by its name"):
        remove_tree(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_mount_inside_is_left_alone_with_its_content(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    top = tmp_path / "top"
    (top / "sub" / "mounted").mkdir(parents=True)
    (top / "gone").touch()
    subprocess.run(["mount", "--bind", str(outside), str(top / "sub" / "mounted")], check=True)
    try:
        with pytest.raises(OSError, match=r"cross-device|busy"):
            remove_tree(top)
        assert (outside / "kept").read_text() == "kept"
        assert not (top / "gone").exists()
    finally:
        subprocess.run(["umount", str(top / "sub" / "mounted")], check=True)
    remove_tree(top)
    assert not top.exists()


def test_a_folder_that_is_swapped_for_a_link_never_leads_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for number in range(50):
        (outside / f"kept{number}").touch()
    libc = ctypes.CDLL(None, use_errno=True)
    stop = threading.Event()
    link, folder = os.fsencode(tmp_path / "link"), os.fsencode(tmp_path / "top" / "dir")
    os.symlink(outside, link)

    def swap() -> None:
        while not stop.is_set():
            libc.renameat2(-100, folder, -100, link, 2)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(200):
            with contextlib.suppress(FileExistsError):
                os.makedirs(folder)
            with contextlib.suppress(OSError):
                remove_tree(tmp_path / "top")
            if not os.path.lexists(link):
                os.symlink(outside, link)
    finally:
        stop.set()
        thread.join(30)
    assert len(list(outside.iterdir())) == 50
