"""A hundred thousand entries in one folder: seen, changed a little, deleted, brought back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandboxed_tools.workspace.apply import apply_set, undo_set
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.remove import remove_tree

from .conftest import Call, actions

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="mounts overlays"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

ENTRIES = 100_000
FEW = (
    "echo x > wide/7; rm wide/8; chmod 600 wide/9; echo y > wide/new; mkdir wide/d;"
    "ls -U wide | wc -l"
)
SHOWN_FEW = {
    "wide/7": "modified",
    "wide/8": "deleted",
    "wide/9": "mode",
    "wide/new": "added",
    "wide/d": "added",
}
ALL = "rm -r wide; mkdir wide; echo z > wide/last"
FOLDER = "rm -r wide"
EACH = 20_000
"""Where each is a step of its own, fewer do."""


@pytest.fixture
def state_disk(other_disk: Path) -> Path:
    """In memory, because a disk takes its time for so many files, and nothing here is about it."""
    (other_disk / "disk").mkdir()
    return other_disk / "disk"


@pytest.fixture
def entries() -> int:
    return ENTRIES


@pytest.fixture
def workspace(entries: int, other_disk: Path) -> Iterator[Path]:
    root = other_disk / "project"
    (root / "wide").mkdir(parents=True)
    folder = os.open(root / "wide", os.O_RDONLY | os.O_DIRECTORY)
    try:
        for number in range(entries):
            os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=folder))
    finally:
        os.close(folder)
    yield root
    remove_tree(root)


def inodes(workspace: Path) -> dict[str, tuple[int, int, int]]:
    with os.scandir(workspace / "wide") as entries:
        infos = ((entry.name, entry.stat(follow_symlinks=False)) for entry in entries)
        return {name: (info.st_ino, info.st_mode, info.st_mtime_ns) for name, info in infos}


@pytest.mark.parametrize("choice", ["overlay", "copy"])
def test_a_few_changes_among_them_are_a_few_changes(
    choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = inodes(workspace)
    called = call(FEW, view=choice)
    assert called.output.split() == [str(ENTRIES + 1)]
    assert actions(store.get(called.id)) == SHOWN_FEW
    assert apply_set(store, called.id).done
    after = inodes(workspace)
    assert {name for name in {*before, *after} if before.get(name) != after.get(name)} == {
        path.removeprefix("wide/") for path in SHOWN_FEW
    }
    assert undo_set(store, called.id).done
    assert inodes(workspace) == before


def test_the_folder_deleted_with_all_of_them_is_one_change(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = inodes(workspace)
    called = call(FOLDER)
    (change,) = store.get(called.id).changes
    assert change.before is not None
    assert (change.action, change.before.entries) == ("deleted", ENTRIES)
    assert apply_set(store, called.id).done
    assert not (workspace / "wide").exists()
    assert undo_set(store, called.id).done
    assert inodes(workspace) == before


@pytest.mark.parametrize("entries", [EACH])
def test_every_one_of_them_deleted_is_a_change_each(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = inodes(workspace)
    called = call(ALL)
    assert called.summary.deleted == EACH
    assert apply_set(store, called.id).done
    assert os.listdir(workspace / "wide") == ["last"]
    assert undo_set(store, called.id).done
    assert inodes(workspace) == before
