"""The state folder is private, its parents are checked, and its id is made once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.tool.state import installation_id, state_dir

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="changes the owner of a folder")


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "outer" / "state"
    monkeypatch.setenv("SANDBOXED_TOOLS_STATE_DIR", str(folder))
    return folder


def test_is_created_private_with_its_parents(chosen: Path) -> None:
    assert state_dir() == chosen
    assert chosen.stat().st_mode & 0o777 == 0o700
    assert chosen.parent.stat().st_mode & 0o022 == 0
    assert state_dir() == chosen


def test_stays_private_under_an_open_umask(chosen: Path) -> None:
    before = os.umask(0)
    try:
        assert state_dir().stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


def test_xdg_state_home_is_used_and_a_relative_one_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SANDBOXED_TOOLS_STATE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert state_dir() == tmp_path / "xdg" / "sandboxed-tools"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert state_dir() == tmp_path / "home" / ".local" / "state" / "sandboxed-tools"


@pytest.mark.parametrize("value", ["", "relative", "/", "/tmp/../etc/x"])
def test_refuses_a_path_that_is_not_plainly_absolute(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDBOXED_TOOLS_STATE_DIR", value)
    with pytest.raises(ConfigurationError):
        state_dir()


def test_refuses_a_symlink_in_its_place(chosen: Path, tmp_path: Path) -> None:
    chosen.parent.mkdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    chosen.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="symlink"):
        state_dir()


def test_a_symlink_among_the_parents_is_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setenv("SANDBOXED_TOOLS_STATE_DIR", str(tmp_path / "link" / "state"))
    assert state_dir() == tmp_path / "real" / "state"


def test_refuses_a_file_in_its_place(chosen: Path) -> None:
    chosen.parent.mkdir()
    chosen.write_text("")
    with pytest.raises(ConfigurationError, match="no folder"):
        state_dir()


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o770, 0o701])
def test_refuses_a_folder_that_is_open_to_others(chosen: Path, mode: int) -> None:
    state_dir()
    chosen.chmod(mode)
    with pytest.raises(ConfigurationError, match="0700"):
        state_dir()


def test_refuses_a_world_writable_parent_unless_it_is_sticky(chosen: Path) -> None:
    chosen.parent.mkdir()
    chosen.parent.chmod(0o777)
    with pytest.raises(ConfigurationError, match="written to by others"):
        state_dir()
    chosen.parent.chmod(0o1777)
    assert state_dir() == chosen


@needs_root
def test_refuses_a_parent_of_another_user(chosen: Path) -> None:
    state_dir()
    os.chown(chosen.parent, 12345, 12345)
    with pytest.raises(ConfigurationError, match="another user"):
        state_dir()


@needs_root
def test_refuses_a_folder_of_another_user(chosen: Path) -> None:
    state_dir()
    os.chown(chosen, 12345, 12345)
    with pytest.raises(ConfigurationError, match="another user"):
        state_dir()


def test_a_parent_that_is_a_file_is_a_configuration_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SANDBOXED_TOOLS_STATE_DIR", str(tmp_path / "file" / "state"))
    with pytest.raises(ConfigurationError) as caught:
        state_dir()
    assert str(tmp_path) not in str(caught.value)


def test_the_id_is_random_and_kept(chosen: Path) -> None:
    first = installation_id()
    assert len(first) == 32
    assert installation_id() == first
    (chosen / "installation-id").unlink()
    assert installation_id() != first


def test_the_id_file_is_private_and_leaves_no_draft(chosen: Path) -> None:
    installation_id()
    assert [path.name for path in chosen.iterdir()] == ["installation-id"]
    assert (chosen / "installation-id").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 32, b"0" * 33, b"G" * 32])
def test_a_damaged_id_is_reported(chosen: Path, content: bytes) -> None:
    state_dir()
    (chosen / "installation-id").write_bytes(content)
    with pytest.raises(ConfigurationError, match="damaged"):
        installation_id()


def test_an_id_behind_a_symlink_is_refused(chosen: Path, tmp_path: Path) -> None:
    state_dir()
    (tmp_path / "planted").write_text("0" * 32)
    (chosen / "installation-id").symlink_to(tmp_path / "planted")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        installation_id()


def test_processes_that_start_together_agree_on_the_id(chosen: Path) -> None:
    code = "from sandboxed_tools.tool.state import installation_id; print(installation_id())"
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    answers = {process.communicate(timeout=60)[0] for process in running}
    assert len(answers) == 1
    assert all(process.returncode == 0 for process in running)
