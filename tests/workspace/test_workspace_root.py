"""Which folders may be a workspace, and how it is held."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sandboxed_tools.errors import InvalidWorkspace, PathRefused
from sandboxed_tools.tool.state import state_dir
from sandboxed_tools.workspace.root import WorkspaceRoot, check_workspace


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/etc", "/etc/ssl", "/usr/share", "/bin", "/lib", "/proc", "/sys", "/dev"),
        *("/dev/shm", "/run", "/var/run", "/boot", "/var", "/tmp", "/home"),
    ],
)
def test_system_and_shared_folders_are_no_workspace(path: str) -> None:
    with pytest.raises(InvalidWorkspace):
        WorkspaceRoot.open(path)


def test_the_home_folder_and_what_holds_it_are_no_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "homes" / "me"
    (home / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for path in (home, home.parent):
        with pytest.raises(InvalidWorkspace, match="home folder"):
            WorkspaceRoot.open(path)
    WorkspaceRoot.open(home / "project").close()


def test_what_overlaps_the_state_folder_is_no_workspace() -> None:
    state = state_dir()
    (state / "below").mkdir(exist_ok=True)
    for path in (state, state.parent, state / "below"):
        with pytest.raises(InvalidWorkspace, match="held changes"):
            WorkspaceRoot.open(path)


def test_what_is_no_folder_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidWorkspace, match="no folder"):
        WorkspaceRoot.open(tmp_path / "file")
    with pytest.raises(InvalidWorkspace, match="does not exist"):
        WorkspaceRoot.open(tmp_path / "missing")
    with pytest.raises(InvalidWorkspace, match="does not exist"):
        WorkspaceRoot.open(tmp_path / "file" / "below")
    os.symlink("loop", tmp_path / "loop")
    with pytest.raises(InvalidWorkspace):
        WorkspaceRoot.open(tmp_path / "loop")
    with pytest.raises(InvalidWorkspace):
        WorkspaceRoot.open("a\0b")
    with pytest.raises(InvalidWorkspace):
        WorkspaceRoot.open(tmp_path / ("x" * 300))


@pytest.mark.parametrize("name", ["a,b", "a:b", "a b", "a\\b", "a\nb", os.fsdecode(b"\xff\xfe")])
def test_a_workspace_may_have_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "file").write_text("x")
    with WorkspaceRoot.open(tmp_path / name) as root:
        place, file = root.open_file(f"{tmp_path / name}/file")
        file.__exit__(None, None, None)
        assert place.parts == (b"file",)


def test_a_link_to_a_workspace_is_resolved_once(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    os.symlink("real", tmp_path / "link")
    with WorkspaceRoot.open(tmp_path / "link") as root:
        assert root.path == tmp_path / "real"
    os.symlink("/etc", tmp_path / "etc")
    with pytest.raises(InvalidWorkspace, match="system folder"):
        check_workspace(tmp_path / "etc")


def test_a_parent_that_everybody_may_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open" / "project").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(InvalidWorkspace, match="everybody"):
        WorkspaceRoot.open(tmp_path / "open" / "project")
    (tmp_path / "open").chmod(0o1777)
    WorkspaceRoot.open(tmp_path / "open" / "project").close()


@pytest.mark.skipif(os.geteuid() != 0, reason="changing owners needs root")
def test_a_workspace_of_another_user_is_for_root_only(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 12345, 23456)
    with WorkspaceRoot.open(tmp_path / "theirs") as root:
        assert root.owner == (12345, 23456)
        assert root.new_file_owner == (12345, 23456)
    (tmp_path / "mine").mkdir()
    os.seteuid(12345)
    try:
        with pytest.raises(InvalidWorkspace):
            check_workspace(tmp_path / "mine")
    finally:
        os.seteuid(0)
    (tmp_path / "theirs" / "a" / "b").mkdir(parents=True)
    with pytest.raises(InvalidWorkspace, match="another user"):
        WorkspaceRoot.open(tmp_path / "theirs" / "a" / "b")


def test_read_roots_are_read_and_never_written(tmp_path: Path) -> None:
    for name in ("project", "headers"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    with WorkspaceRoot.open(tmp_path / "project", read_roots=[tmp_path / "headers"]) as root:
        place, file = root.open_file(f"{tmp_path}/headers/file")
        with file:
            assert os.read(file.fd, 100) == b"headers"
        assert place.text == f"{tmp_path}/headers/file"
        with pytest.raises(PathRefused) as refused:
            root.locate(f"{tmp_path}/headers/file", for_writing=True)
        assert refused.value.reason == "read_only"
        os.symlink(tmp_path / "project" / "file", tmp_path / "headers" / "across")
        with pytest.raises(PathRefused):
            root.open_file(f"{tmp_path}/headers/across")


def test_denied_paths_are_refused_by_name_by_link_and_by_folder(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "secrets").mkdir(parents=True)
    (project / "secrets" / "key").write_text("key")
    (project / ".env").write_text("TOKEN=1")
    os.symlink(".env", project / "link")
    os.symlink("secrets", project / "folder")
    with WorkspaceRoot.open(project, denied=[".env", "secrets/"]) as root:
        for path in (".env", "link", ".ENV", "secrets/key", "folder/key", "secrets/new"):
            with pytest.raises(PathRefused) as refused:
                root.open_file(path)
            assert refused.value.reason == "denied"
        with pytest.raises(PathRefused):
            root.locate("secrets/new", for_writing=True)
        with pytest.raises(PathRefused):
            root.open_folder("folder")


def test_a_closed_workspace_opens_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    root = WorkspaceRoot.open(tmp_path)
    root.close()
    root.close()
    with pytest.raises(PathRefused):
        root.open_file("a")


def test_a_refused_workspace_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(InvalidWorkspace):
        WorkspaceRoot.open(tmp_path, read_roots=[tmp_path / "missing"])
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_descriptor_does_not_reach_child_processes(tmp_path: Path) -> None:
    with WorkspaceRoot.open(tmp_path) as root:
        assert not os.get_inheritable(root.tree.fd)
        listing = subprocess.run(
            ["ls", "-l", "/proc/self/fd"], capture_output=True, text=True, check=True
        )
        assert str(tmp_path) not in listing.stdout
