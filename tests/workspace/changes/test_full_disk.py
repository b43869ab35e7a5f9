"""A disk that really is full in the middle: the old or the new whole workspace, and a way on."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from sandboxed_tools.workspace.apply import apply_set, recover, undo_set
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.steps import OnStep

from .conftest import Call, picture
from .test_change_set import SCRIPT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts file systems")

MAX_STEPS = 60
DISK_OPTIONS = "size=4m,nr_inodes=400,mode=755"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", DISK_OPTIONS, "none", str(folder)], check=True, timeout=30
    )
    yield folder
    subprocess.run(["umount", str(folder)], check=True, timeout=30)


@pytest.fixture(params=["both on it", "state on it", "workspace on it"])
def placement(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def state_disk(placement: str, tmp_path: Path, small_disk: Path) -> Path:
    folder = (tmp_path if placement == "workspace on it" else small_disk) / "disk"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(placement: str, workspace: Path, small_disk: Path) -> Path:
    if placement == "state on it":
        return workspace
    moved = small_disk / "project"
    subprocess.run(["cp", "-a", workspace, moved], check=True, timeout=30)
    return moved


class Filling:
    """Takes every byte and every inode of a disk that is left, and gives them back."""

    def __init__(self, disk: Path) -> None:
        self._folder = disk / "filling"
        self._disk = disk

    def fill(self) -> None:
        self._folder.mkdir()
        with (self._folder / "bytes").open("wb", buffering=0) as file, _until_full():
            while file.write(b"x" * 65536):
                pass
        with _until_full():
            for number in range(1000):
                (self._folder / str(number)).touch()
        with pytest.raises(OSError, match="No space"):
            (self._disk / "one-more").write_bytes(b"x")

    def free(self) -> None:
        subprocess.run(["rm", "-rf", self._folder], check=True, timeout=30)


class _until_full:
    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        return isinstance(error, OSError) and error.errno == errno.ENOSPC


def filled_at(step: int, filling: Filling, work: Callable[[OnStep], bool]) -> str:
    """Do it on a disk that is full from this step on: "done", "failed", or "not reached"."""
    taken = iter(range(1000))
    reached = False

    def on_step() -> None:
        nonlocal reached
        if next(taken) == step:
            reached = True
            filling.fill()

    try:
        done = work(on_step)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return "failed"
    assert done
    return "done" if reached else "not reached"


def apply_with(store: ChangeStore, change_set_id: str, on_step: OnStep) -> bool:
    return apply_set(store, change_set_id, on_step=on_step).done


def undo_with(store: ChangeStore, change_set_id: str, on_step: OnStep) -> bool:
    return undo_set(store, change_set_id, on_step=on_step).done


def whole_picture(workspace: Path) -> dict[str, tuple[object, ...]]:
    """Of the workspace without what passes through it for a moment."""
    found = picture(workspace, times=False)
    return {name: facts for name, facts in found.items() if ".sandboxed-tools-" not in name}


def test_full_at_any_step_of_an_apply(
    call: Call, workspace: Path, store: ChangeStore, small_disk: Path
) -> None:
    change_set_id = call(SCRIPT).id
    exact, old = picture(workspace), whole_picture(workspace)
    assert apply_set(store, change_set_id).done
    new = whole_picture(workspace)
    assert undo_set(store, change_set_id).done
    filling = Filling(small_disk)
    outcomes = set()
    for step in range(MAX_STEPS):
        outcome = filled_at(step, filling, partial(apply_with, store, change_set_id))
        outcomes.add(outcome)
        if outcome == "not reached":
            break
        # Also while nothing can be written: never a part of it.
        assert whole_picture(workspace) in (old, new)
        recover(store)
        assert whole_picture(workspace) in (old, new)
        filling.free()
        recover(store)
        if store.get(change_set_id).status == "applied":
            assert whole_picture(workspace) == new
            assert undo_set(store, change_set_id).done
        assert picture(workspace) == exact
        assert store.get(change_set_id).status in ("held", "undone")
    assert {"failed", "not reached"} <= outcomes


def test_full_at_any_step_of_an_undo(
    call: Call, workspace: Path, store: ChangeStore, small_disk: Path
) -> None:
    change_set_id = call(SCRIPT).id
    exact, old = picture(workspace), whole_picture(workspace)
    assert apply_set(store, change_set_id).done
    new = whole_picture(workspace)
    filling = Filling(small_disk)
    outcomes = set()
    for step in range(MAX_STEPS):
        outcome = filled_at(step, filling, partial(undo_with, store, change_set_id))
        outcomes.add(outcome)
        if outcome == "not reached":
            break
        recover(store)
        assert whole_picture(workspace) in (old, new)
        filling.free()
        recover(store)
        if store.get(change_set_id).status == "undone":
            assert picture(workspace) == exact
            assert whole_picture(workspace) == old
            assert apply_set(store, change_set_id).done
        assert whole_picture(workspace) == new
    assert {"failed", "not reached"} <= outcomes


@pytest.mark.parametrize("placement", ["both on it", "state on it"])
def test_a_full_disk_when_a_set_is_to_be_held_changes_nothing(
    call: Call, workspace: Path, store: ChangeStore, small_disk: Path
) -> None:
    before = picture(workspace)
    filling = Filling(small_disk)
    with pytest.raises(OSError, match="No space"):
        call(SCRIPT, meanwhile=filling.fill)
    filling.free()
    assert picture(workspace) == before
    assert store.sets() == ()
    assert call(SCRIPT, changes="apply").summary.decision == "applied"
