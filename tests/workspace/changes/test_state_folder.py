"""The state folder may vanish or become read-only at any moment of a view's or a set's life."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandboxed_tools.errors import ChangeSetNotFound, ConfigurationError
from sandboxed_tools.tool.mounts import WorkspaceMount
from sandboxed_tools.workspace.apply import apply_set, discard_set, recover, undo_set
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.views import WorkspaceViews

from .conftest import USER, Call, picture, run_on
from .test_change_set import SCRIPT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts overlays")


@pytest.fixture(params=["overlay", "copy"])
def choice(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["same disk", "other disk"])
def state_disk(request: pytest.FixtureRequest, tmp_path: Path, other_disk: Path) -> Path:
    if request.param == "other disk":
        return other_disk
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


def remove(folder: Path) -> None:
    # What a mount stands on stays, and with it the folders above.
    command = ["rm", "-rf", "--one-file-system", str(folder)]
    subprocess.run(command, stderr=subprocess.DEVNULL, check=False, timeout=60)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """A mode does not stop a root client, a mount that is read-only does."""
    subprocess.run(["mount", "--bind", folder, folder], check=True, timeout=30)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True, timeout=30)
        yield
    finally:
        subprocess.run(["umount", folder], check=True, timeout=30)


def test_held_sets_that_are_gone_are_not_found_and_the_next_call_starts_afresh(
    choice: str, call: Call, workspace: Path, store: ChangeStore, state: Path
) -> None:
    before = picture(workspace)
    called = call(SCRIPT, view=choice)
    remove(state)
    for decide in (apply_set, undo_set, discard_set):
        with pytest.raises(ChangeSetNotFound):
            decide(ChangeStore(), called.id)
    assert recover(ChangeStore()) == ()
    assert picture(workspace) == before
    assert call(SCRIPT, view=choice, changes="apply").summary.decision == "applied"


def test_a_state_folder_that_vanishes_during_a_call_changes_nothing(
    choice: str, call: Call, workspace: Path, state: Path
) -> None:
    before = picture(workspace)
    with pytest.raises(OSError, match="No such file"):
        call(SCRIPT, view=choice, changes="apply", meanwhile=lambda: remove(state))
    assert picture(workspace) == before
    assert call(SCRIPT, view=choice, changes="apply").summary.decision == "applied"


def test_a_view_of_a_state_folder_that_vanished_can_be_closed(
    choice: str, workspace: Path, state: Path
) -> None:
    view = WorkspaceViews().open(WorkspaceMount(source=workspace, view=choice), USER)  # type: ignore[arg-type]
    run_on(view, SCRIPT)
    remove(state)
    with pytest.raises(OSError, match="No such file"):
        view.usage()
    view.close()
    assert str(state) not in Path("/proc/self/mountinfo").read_text()


def test_a_read_only_state_folder_is_said_before_a_call(
    choice: str, workspace: Path, state: Path, store: ChangeStore
) -> None:
    views = WorkspaceViews()
    with read_only(state), pytest.raises((ConfigurationError, OSError)):
        views.open(WorkspaceMount(source=workspace, view=choice), USER)  # type: ignore[arg-type]


def test_a_state_folder_that_becomes_read_only_is_no_half_decision(
    choice: str, call: Call, workspace: Path, store: ChangeStore, state: Path
) -> None:
    called = call(SCRIPT, view=choice)
    before = picture(workspace)
    with read_only(state):
        with pytest.raises(OSError, match="Read-only"):
            apply_set(store, called.id)
        assert picture(workspace) == before
        assert [item.id for item in store.sets()] == [called.id]
        with pytest.raises(OSError, match="Read-only"):
            discard_set(store, called.id)
    assert apply_set(store, called.id).done
    after = picture(workspace)
    with read_only(state):
        with pytest.raises(OSError, match="Read-only"):
            undo_set(store, called.id)
        assert picture(workspace) == after
    assert undo_set(store, called.id).done
    assert picture(workspace) == before


@pytest.mark.parametrize("only", ["docs/new", "docs/a.md", "secret.txt"])
def test_a_set_is_split_wherever_the_state_folder_is(
    only: str, choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = picture(workspace)
    script = "rm -r docs; mkdir docs; echo n > docs/new; echo more >> secret.txt; ln keep.txt hl"
    called = call(script, view=choice)
    part = apply_set(store, called.id, only=(only,))
    assert part.done, part.problems
    assert part.rest is not None
    rest = apply_set(store, part.rest)
    assert rest.done, rest.problems
    assert os.listdir(workspace / "docs") == ["new"]
    assert (workspace / "hl").read_text() == "keep\n"
    for change_set_id in (part.rest, part.change_set.id):
        undone = undo_set(store, change_set_id)
        assert undone.done, undone.problems
    assert picture(workspace) == before
    assert list(workspace.glob(".sandboxed-tools-*")) == []
