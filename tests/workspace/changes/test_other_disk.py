"""The state folder may be on another disk, or behind another mount, than the workspace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from sandboxed_tools.workspace.apply import apply_set, recover, undo_set
from sandboxed_tools.workspace.change_store import ChangeStore

from .conftest import Call, picture
from .test_change_set import SCRIPT
from .test_killed_apply import MAX_STEPS, apply_in, killed_at, undo_in

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts overlays")


@pytest.fixture
def state_disk(other_disk: Path) -> Path:
    return other_disk


@pytest.fixture(autouse=True)
def _no_depot_is_left(workspace: Path) -> Iterator[None]:
    yield
    assert list(workspace.glob(".sandboxed-tools-*")) == []


def test_the_disks_differ(store: ChangeStore, workspace: Path) -> None:
    assert store.folder.stat().st_dev != workspace.stat().st_dev


@pytest.mark.parametrize("choice", ["overlay", "copy"])
def test_apply_undo_and_apply_again(
    choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    os.chown(workspace / "docs" / "a.md", 55, 66)
    (workspace / "docs" / "a.md").chmod(0o4711)
    before = picture(workspace)
    called = call(SCRIPT, view=choice)
    assert apply_set(store, called.id).done
    after = picture(workspace, times=False)
    assert after != before
    assert undo_set(store, called.id).done
    assert picture(workspace) == before
    assert apply_set(store, called.id).done
    assert picture(workspace, times=False) == after
    assert undo_set(store, called.id).done
    assert picture(workspace) == before


def test_conflicts_are_seen(call: Call, workspace: Path, store: ChangeStore) -> None:
    called = call(SCRIPT)
    (workspace / "secret.txt").write_text("host\n")
    before = picture(workspace)
    assert [problem.kind for problem in apply_set(store, called.id).problems] == ["conflict"]
    assert picture(workspace) == before


def test_later_edits_stop_an_undo(call: Call, workspace: Path, store: ChangeStore) -> None:
    called = call(SCRIPT, changes="apply")
    (workspace / "secret.txt").write_text("host\n")
    (decision,) = [undo_set(store, called.id)]
    assert [problem.path for problem in decision.problems] == [b"secret.txt"]


def test_killed_at_any_step_of_an_apply(call: Call, workspace: Path, store: ChangeStore) -> None:
    change_set_id = call(SCRIPT).id
    old = picture(workspace)
    assert apply_set(store, change_set_id).done
    new = picture(workspace, times=False)
    assert undo_set(store, change_set_id).done
    reached = 0
    while killed_at(reached, partial(apply_in, change_set_id)):
        recover(store)
        if store.get(change_set_id).status == "applied":
            assert picture(workspace, times=False) == new
            assert undo_set(store, change_set_id).done
        assert picture(workspace) == old
        reached += 1
        assert reached < MAX_STEPS
    assert reached >= 15


def test_killed_at_any_step_of_an_undo(call: Call, workspace: Path, store: ChangeStore) -> None:
    change_set_id = call(SCRIPT).id
    old = picture(workspace)
    assert apply_set(store, change_set_id).done
    new = picture(workspace, times=False)
    reached = 0
    while killed_at(reached, partial(undo_in, change_set_id)):
        recover(store)
        if store.get(change_set_id).status == "undone":
            assert picture(workspace) == old
            assert apply_set(store, change_set_id).done
        assert picture(workspace, times=False) == new
        reached += 1
        assert reached < MAX_STEPS
    assert reached >= 15


def test_a_failing_disk_takes_everything_back(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    called = call(SCRIPT)
    before = picture(workspace)
    steps = iter(range(100))

    def fail() -> None:
        if next(steps) == 8:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        apply_set(store, called.id, on_step=fail)
    recover(store)
    assert picture(workspace) == before
    assert apply_set(store, called.id).done
