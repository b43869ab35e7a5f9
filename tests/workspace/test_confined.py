"""Opening files in a hostile tree: both ways of resolving give the same answers."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandboxed_tools.errors import PathRefused
from sandboxed_tools.workspace.confined import ConfinedTree
from sandboxed_tools.workspace.root import WorkspaceRoot


@pytest.fixture(params=[True, False], ids=["openat2", "name by name"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WorkspaceRoot]:
    workspace = tmp_path / "project"
    workspace.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    with WorkspaceRoot.open(workspace, use_openat2=request.param) as opened:
        yield opened


def content(root: WorkspaceRoot, path: str, *, follow_links: bool = True) -> bytes:
    _, file = root.open_file(path, follow_links=follow_links)
    with file:
        return os.read(file.fd, 1000)


def reason(root: WorkspaceRoot, path: str, *, follow_links: bool = True) -> str:
    with pytest.raises(PathRefused) as refused:
        content(root, path, follow_links=follow_links)
    return refused.value.reason


def test_a_file_is_opened_by_each_spelling(root: WorkspaceRoot) -> None:
    (root.path / "sub").mkdir()
    (root.path / "sub" / "a").write_text("inside")
    for spelling in ("sub/a", "./sub//a", "/workspace/sub/a", f"{root.path}/sub/a"):
        assert content(root, spelling) == b"inside"


@pytest.mark.parametrize(
    "target",
    [
        "../outside/secret",
        "{outside}/secret",
        "sub/../../outside/secret",
        "/etc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd",
        "/dev/zero",
        "/",
        "..",
        "/workspace/../etc/passwd",
        "/workspace-evil/x",
        "a" * 255 + "/../../../etc/passwd",
    ],
)
def test_a_link_out_is_refused(root: WorkspaceRoot, target: str) -> None:
    (root.path / "sub").mkdir()
    (root.path / ("a" * 255)).mkdir()
    os.symlink(target.format(outside=root.path.parent / "outside"), root.path / "link")
    assert reason(root, "link") == "outside"
    assert reason(root, "link", follow_links=False) == "link"


def test_a_chain_of_links_that_ends_outside_is_refused(root: WorkspaceRoot) -> None:
    os.symlink("two", root.path / "one")
    os.symlink("three/secret", root.path / "two")
    os.symlink("../outside", root.path / "three")
    assert reason(root, "one") == "outside"


def test_a_folder_link_out_is_refused_on_the_way(root: WorkspaceRoot) -> None:
    os.symlink(root.path.parent / "outside", root.path / "folder")
    assert reason(root, "folder/secret") == "outside"
    assert reason(root, "folder") == "outside"
    with pytest.raises(PathRefused) as refused:
        root.tree.make_folders((b"folder", b"new"))
    assert refused.value.reason == "link"
    assert not (root.path.parent / "outside" / "new").exists()


def test_links_that_stay_inside_are_followed_and_tell_the_true_name(root: WorkspaceRoot) -> None:
    (root.path / "a" / "b").mkdir(parents=True)
    (root.path / "a" / "b" / "file").write_text("inside")
    os.symlink("a/b/file", root.path / "plain")
    os.symlink("../b/./file", root.path / "a" / "b" / "up")
    os.symlink("/workspace/a/b/file", root.path / "mounted")
    os.symlink(f"{root.path}/a/b/file", root.path / "absolute")
    os.symlink("a/b", root.path / "folder")
    os.symlink(".", root.path / "self")
    for path in ("plain", "a/b/up", "mounted", "absolute", "folder/file", "self/self/folder/file"):
        place, file = root.open_file(path)
        with file:
            assert os.read(file.fd, 100) == b"inside"
        assert place.parts == (b"a", b"b", b"file")
        assert reason(root, path, follow_links=False) == "link"


def test_dangling_links_and_loops_end(root: WorkspaceRoot) -> None:
    os.symlink("nowhere", root.path / "dangling")
    os.symlink("loop", root.path / "loop")
    os.symlink("two", root.path / "one")
    os.symlink("one", root.path / "two")
    os.symlink("/".join(["self", ".."] * 500), root.path / "self")
    assert reason(root, "dangling") == "missing"
    assert reason(root, "loop") == "link"
    assert reason(root, "one") == "link"
    assert reason(root, "self") == "link"


def test_only_regular_files_are_opened_and_nothing_waits(root: WorkspaceRoot) -> None:
    os.mkfifo(root.path / "fifo")
    (root.path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(".", os.O_PATH)
        try:
            os.chdir(root.path)
            server.bind("socket")
        finally:
            os.fchdir(here)
            os.close(here)
        assert reason(root, "fifo") == "not_regular"
        assert reason(root, "socket") == "not_regular"
        assert reason(root, "folder") == "folder"
        assert reason(root, ".") == "folder"
        assert reason(root, "missing") == "missing"
        assert reason(root, "x" * 300) == "too_long"


@pytest.mark.skipif(os.geteuid() != 0, reason="making a device needs root")
def test_a_device_is_refused(root: WorkspaceRoot) -> None:
    os.mknod(root.path / "zero", 0o020666, os.makedev(1, 5))
    assert reason(root, "zero") == "not_regular"


def test_a_leased_file_is_refused_at_once(root: WorkspaceRoot) -> None:
    (root.path / "leased").write_text("x")
    code = (
        "import fcntl, os, signal, sys\n"
        "signal.signal(signal.SIGIO, signal.SIG_IGN)\n"
        "fd = os.open(sys.argv[1], os.O_RDWR)\n"
        f"fcntl.fcntl(fd, {fcntl.F_SETLEASE}, fcntl.F_WRLCK)\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, root.path / "leased"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        assert reason(root, "leased") == "leased"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_of_mode_000_is_refused_with_the_reason(root: WorkspaceRoot) -> None:
    (root.path / "closed").write_text("x")
    (root.path / "closed").chmod(0)
    assert reason(root, "closed") == "permission"


def test_a_name_with_a_file_on_the_way_is_refused(root: WorkspaceRoot) -> None:
    (root.path / "file").write_text("x")
    assert reason(root, "file/below") == "not_folder"


def test_every_name_that_a_file_can_have_is_opened(root: WorkspaceRoot) -> None:
    names = [b"a\nb", b"-rf", b" lead", b"\xff\xfe", b"*", b"\x1b]0;t\x07", b"...", b"..a", b"~"]
    for name in [*names, b"x" * 255, "\u202egpj".encode(), "e\u0301".encode(), "é".encode()]:
        path = os.fsencode(root.path) + b"/" + name
        with open(path, "wb") as file:
            file.write(name)
        assert content(root, os.fsdecode(name)) == name


def test_paths_longer_than_one_system_call_are_opened(root: WorkspaceRoot) -> None:
    name = b"d" * 200
    parts = (name,) * 300
    os.close(root.tree.make_folders(parts))
    fd, _ = root.tree.open_folder(parts)
    try:
        handle = os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd)
        os.write(handle, b"deep")
        os.close(handle)
    finally:
        os.close(fd)
    assert content(root, os.fsdecode(b"/".join((*parts, b"file")))) == b"deep"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_mount_inside_is_not_entered(root: WorkspaceRoot) -> None:
    (root.path / "mounted").mkdir()
    (root.path.parent / "outside" / "sub").mkdir()
    (root.path.parent / "outside" / "sub" / "deep").write_text("x")
    os.symlink("../secret", root.path.parent / "outside" / "sub" / "up")
    subprocess.run(
        ["mount", "--bind", root.path.parent / "outside", root.path / "mounted"], check=True
    )
    try:
        os.symlink("mounted/sub", root.path / "link")
        for path in ("mounted/secret", "mounted/sub/deep", "link/deep", "mounted/sub/up"):
            assert reason(root, path) == "outside"
        with pytest.raises(PathRefused):
            root.open_folder("mounted")
    finally:
        subprocess.run(["umount", root.path / "mounted"], check=True)


def test_the_workspace_stays_the_same_folder_when_its_path_becomes_another(
    root: WorkspaceRoot,
) -> None:
    (root.path / "file").write_text("first")
    moved = root.path.with_name("moved")
    root.path.rename(moved)
    root.path.mkdir()
    (root.path / "file").write_text("second")
    assert content(root, "file") == b"first"


def test_no_descriptor_is_left_open_by_refusals(root: WorkspaceRoot) -> None:
    os.symlink("../outside/secret", root.path / "out")
    os.symlink("a/../../b/x", root.path / "up")
    (root.path / "a").mkdir()
    os.mkfifo(root.path / "fifo")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("out", "up", "fifo", "missing", "a", "a/b/c"):
        with pytest.raises(PathRefused):
            content(root, path)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("victim", ["folder", "file"])
def test_a_name_that_is_swapped_for_a_link_never_leads_outside(
    root: WorkspaceRoot, victim: str
) -> None:
    """RENAME_EXCHANGE of a folder, or a file, with a link out, as fast as the kernel can."""
    (root.path / "folder").mkdir()
    (root.path / "folder" / "secret").write_text("inside")
    (root.path / "file").write_text("inside")
    outside = root.path.parent / "outside"
    os.symlink(outside if victim == "folder" else outside / "secret", root.path / "link")
    code = (
        "import ctypes, os, sys\n"
        "libc = ctypes.CDLL(None)\n"
        "os.chdir(sys.argv[1])\n"
        "name = sys.argv[2].encode()\n"
        "print('ready', flush=True)\n"
        "while True: libc.renameat2(-100, name, -100, b'link', 2)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, root.path, victim], stdout=subprocess.PIPE
    ) as swapper:
        try:
            assert swapper.stdout is not None
            swapper.stdout.readline()
            path = "folder/secret" if victim == "folder" else "file"
            seen: set[bytes] = set()
            for _ in range(10_000):
                try:
                    seen.add(content(root, path))
                except PathRefused as error:
                    seen.add(error.reason.encode())
        finally:
            swapper.kill()
    assert b"secret" not in seen
    assert b"inside" in seen
    assert b"outside" in seen or b"link" in seen


def test_a_tree_can_be_opened_over_any_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    fd = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    try:
        tree = ConfinedTree.over(fd, text=str(tmp_path), spelled=lambda _: None)
        with tree.open_regular((b"a",), follow_links=False) as file:
            assert os.read(file.fd, 10) == b"x"
    finally:
        os.close(fd)


def test_the_swapper_of_these_tests_really_swaps(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    os.symlink("/etc", tmp_path / "b")
    libc = ctypes.CDLL(None, use_errno=True)
    paths = (os.fsencode(tmp_path / "a"), os.fsencode(tmp_path / "b"))
    assert libc.renameat2(-100, paths[0], -100, paths[1], 2) == 0
    assert (tmp_path / "a").is_symlink()
