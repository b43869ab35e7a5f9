"""Undo of a file that was written takes the folders that were made for it along, and no others."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from sandboxed_tools.workspace import EditJournal, FileStateCache, WorkspaceRoot
from sandboxed_tools.workspace.apply import apply_set, recover, undo_set
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.write_file import write_file

from .conftest import picture
from .test_killed_apply import MAX_STEPS, killed_at, undo_in

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts file systems")


@pytest.fixture(params=["same disk", "other disk"])
def state_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The state folder is where the workspace is, or on a disk of its own."""
    if request.param == "other disk":
        return Path(str(request.getfixturevalue("other_disk")))
    (tmp_path / "disk").mkdir()
    return tmp_path / "disk"


def written(workspace: Path, *paths: str) -> list[str]:
    """Write files as the tool does; the ids of the entries, oldest first."""
    known = {item.id for item in ChangeStore().sets()}
    with WorkspaceRoot.open(workspace) as root:
        journal = EditJournal(root.path, session="s")
        for path in paths:
            write_file(root, path, f"{path}\n", cache=FileStateCache(), journal=journal)
    return [item.id for item in ChangeStore().sets() if item.id not in known]


def before_and_after(workspace: Path) -> dict[str, tuple[object, ...]]:
    return picture(workspace, times=False)


def test_folders_go_with_the_file_and_come_back_with_it(
    workspace: Path, store: ChangeStore
) -> None:
    old = before_and_after(workspace)
    (entry,) = written(workspace, "a/b/c.txt")
    new = before_and_after(workspace)
    assert [change.path for change in store.get(entry).changes] == [b"a", b"a/b", b"a/b/c.txt"]
    for _ in range(2):
        assert undo_set(store, entry).done
        assert before_and_after(workspace) == old
        assert apply_set(store, entry).done
        assert before_and_after(workspace) == new
    assert undo_set(store, entry).done
    assert before_and_after(workspace) == old


def test_folders_that_hold_something_else_stay(workspace: Path, store: ChangeStore) -> None:
    first, second = written(workspace, "a/b/c.txt", "a/d.txt")
    assert undo_set(store, first).done
    assert sorted(os.listdir(workspace / "a")) == ["d.txt"]
    assert apply_set(store, first).done
    assert (workspace / "a" / "b" / "c.txt").read_text() == "a/b/c.txt\n"
    assert undo_set(store, second).done
    assert undo_set(store, first).done
    assert (workspace / "a").exists()


def test_a_folder_that_somebody_made_in_the_place_stays(
    workspace: Path, store: ChangeStore
) -> None:
    (entry,) = written(workspace, "a/c.txt")
    (workspace / "a").rename(workspace / "theirs")
    (workspace / "a").mkdir()
    os.rename(workspace / "theirs" / "c.txt", workspace / "a" / "c.txt")
    assert undo_set(store, entry).done
    assert os.listdir(workspace / "a") == []
    assert os.listdir(workspace / "theirs") == []


def test_killed_at_any_step_all_of_it_goes_or_nothing(workspace: Path, store: ChangeStore) -> None:
    old = before_and_after(workspace)
    for reached in range(MAX_STEPS):
        (entry,) = written(workspace, "a/b/c.txt")
        new = before_and_after(workspace)
        if not killed_at(reached, partial(undo_in, entry)):
            break
        recover(store)
        if store.get(entry).status == "applied":
            assert before_and_after(workspace) == new
            assert undo_set(store, entry).done
        assert store.get(entry).status == "undone"
        assert before_and_after(workspace) == old
    # The plan, the state, the file, its two folders, and the sync.
    assert 6 <= reached < MAX_STEPS - 1
