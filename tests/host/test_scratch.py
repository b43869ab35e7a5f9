from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxed_tools.host import remove_stale_scratch
from sandboxed_tools.host.remove_tree import remove_tree
from sandboxed_tools.host.scratch import make_scratch, private_scratch, remove_scratch
from sandboxed_tools.tool.process import ProcessName

NAMES = st.binary(min_size=1, max_size=12).filter(
    lambda name: b"/" not in name and b"\0" not in name and name not in (b".", b"..")
)


def test_the_folders_are_private_and_gone_afterwards() -> None:
    with private_scratch(uid=None, gid=None) as scratch:
        for folder in (scratch.root, scratch.tmp, scratch.home):
            assert folder.stat().st_mode & 0o777 == 0o700
        (scratch.tmp / "file").write_text("x", encoding="utf-8")
    assert not scratch.root.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_another_user_gets_its_folders_and_not_the_one_around_them() -> None:
    with private_scratch(uid=65534, gid=65534) as scratch:
        assert scratch.root.stat().st_uid == 0
        assert scratch.root.stat().st_mode & 0o777 == 0o711
        assert scratch.tmp.stat().st_uid == scratch.home.stat().st_uid == 65534


def test_what_a_dead_owner_left_is_removed_and_what_a_living_one_has_is_not() -> None:
    mine = make_scratch(uid=None, gid=None)
    try:
        program = (
            "from sandboxed_tools.host.scratch import make_scratch\n"
            "print(make_scratch(uid=None, gid=None).root)"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
        stale = Path(os.fsdecode(done.stdout).strip())
        assert stale.is_dir()
        # Other tests of this worker may have left one, too, whose remover is still at it.
        assert remove_stale_scratch() >= 1
        assert not stale.exists()
        assert mine.root.is_dir()
    finally:
        remove_scratch(mine)


def test_names_that_lie_are_left_alone(tmp_path: Path) -> None:
    base = Path(tempfile.gettempdir())
    here = str(ProcessName.current()).split("-")
    dead = "-".join([*here[:4], "4194304", "1"])
    link = base / f"sandboxed-tools-host.{dead}.link"
    strange = base / "sandboxed-tools-host.not-a-process.x"
    (tmp_path / "kept").write_text("x", encoding="utf-8")
    link.symlink_to(tmp_path)
    strange.mkdir()
    try:
        remove_stale_scratch()
        assert link.is_symlink()
        assert (tmp_path / "kept").exists()
        assert strange.exists()
    finally:
        link.unlink()
        strange.rmdir()


@pytest.mark.timeout(900)
def test_a_tree_that_is_very_deep_is_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(5000):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    remove_tree(os.fsencode(top))
    assert not top.exists()


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x", encoding="utf-8")
    top = tmp_path / "top"
    (top / "inner").mkdir(parents=True)
    (top / "link").symlink_to(outside)
    (top / "inner" / "link").symlink_to(outside)
    remove_tree(os.fsencode(top))
    assert not top.exists()
    assert (outside / "kept").exists()


def test_a_link_in_the_place_of_the_tree_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "top").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        remove_tree(os.fsencode(tmp_path / "top"))
    assert (tmp_path / "outside").exists()
    remove_tree(os.fsencode(tmp_path / "missing"))


@settings(max_examples=60, deadline=None)
@given(paths=st.lists(st.lists(NAMES, min_size=1, max_size=4), max_size=12), mode=st.integers(0, 7))
def test_any_names_and_modes_are_removed(paths: list[list[bytes]], mode: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        top = os.fsencode(name) + b"/top"
        os.mkdir(top)
        # Names that the removal itself uses must not confuse it.
        os.mkdir(top + b"/.lifted-1")
        made = []
        for parts in paths:
            folder = b"/".join([top, *parts])
            try:
                os.makedirs(folder, exist_ok=True)
                Path(os.fsdecode(folder + b"/f")).touch()
            except OSError:
                continue
            made.append(folder)
        for folder in sorted(made, key=len, reverse=True):
            os.chmod(folder, mode << 6)
        remove_tree(top)
        assert not os.path.exists(top)
