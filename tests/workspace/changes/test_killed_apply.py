"""Killed at any step of an apply or an undo, the next start finds the old or the new whole set."""

from __future__ import annotations

import errno
import os
import signal
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sandboxed_tools.workspace import renames
from sandboxed_tools.workspace.apply import apply_set, recover, undo_set
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.steps import OnStep

from .conftest import Call, picture
from .test_change_set import SCRIPT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts overlays")

MAX_STEPS = 60


def apply_in(change_set_id: str, on_step: OnStep) -> None:
    assert apply_set(ChangeStore(), change_set_id, on_step=on_step).done


def undo_in(change_set_id: str, on_step: OnStep) -> None:
    assert undo_set(ChangeStore(), change_set_id, on_step=on_step).done


def killed_at(step: int, work: Callable[[OnStep], object]) -> bool:
    """Have a process do it that is killed before its step; whether that step was reached."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        steps = iter(range(1000))

        def on_step() -> None:
            if next(steps) == step:
                os.kill(os.getpid(), signal.SIGKILL)

        code = 1
        try:
            work(on_step)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL)
    return os.WIFSIGNALED(status)


@pytest.fixture(params=["renameat2", "rename"])
def _renaming(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also as on a file system that cannot exchange names, such as NFS."""
    if request.param == "rename":

        def refuse(*_: object) -> None:
            raise OSError(errno.EINVAL, "as NFS answers")

        monkeypatch.setattr(renames, "_rename", refuse)


@pytest.mark.usefixtures("_renaming")
def test_an_apply_that_was_killed_is_finished_or_has_not_begun(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    change_set_id = call(SCRIPT).id
    old = picture(workspace)
    assert apply_set(store, change_set_id).done
    new = picture(workspace, times=False)
    assert undo_set(store, change_set_id).done
    reached = 0
    while killed_at(reached, partial(apply_in, change_set_id)):
        recover(store)
        status = store.get(change_set_id).status
        if status in ("held", "undone"):
            assert picture(workspace) == old
        else:
            assert status == "applied"
            assert picture(workspace, times=False) == new
            assert undo_set(store, change_set_id).done
        assert picture(workspace) == old
        reached += 1
        assert reached < MAX_STEPS
    # Nine entries with their renames, the plan, the two states and the syncs.
    assert reached >= 12


@pytest.mark.usefixtures("_renaming")
def test_an_undo_that_was_killed_is_finished_or_has_not_begun(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    change_set_id = call(SCRIPT).id
    old = picture(workspace)
    assert apply_set(store, change_set_id).done
    new = picture(workspace, times=False)
    reached = 0
    while killed_at(reached, partial(undo_in, change_set_id)):
        recover(store)
        status = store.get(change_set_id).status
        if status == "applied":
            assert picture(workspace, times=False) == new
        else:
            assert status == "undone"
            assert picture(workspace) == old
            assert apply_set(store, change_set_id).done
        reached += 1
        assert reached < MAX_STEPS
    assert reached >= 10


def test_a_recovery_that_is_killed_is_recovered(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    change_set_id = call(SCRIPT).id
    assert apply_set(store, change_set_id).done
    new = picture(workspace, times=False)
    assert undo_set(store, change_set_id).done
    assert killed_at(6, partial(apply_in, change_set_id))
    rounds = 0
    while killed_at(2, lambda on_step: recover(ChangeStore(), on_step=on_step)):
        rounds += 1
        assert rounds < MAX_STEPS
    assert rounds >= 2
    recover(store)
    assert store.get(change_set_id).status == "applied"
    assert picture(workspace, times=False) == new


def test_recovery_takes_back_what_somebody_made_impossible_to_finish(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    change_set_id = call(SCRIPT).id
    old = picture(workspace)
    assert killed_at(8, partial(apply_in, change_set_id))
    assert store.get(change_set_id).status == "applying"
    # One of the later steps finds something else now.
    (workspace / "docs" / "a.md").unlink()
    (workspace / "docs" / "a.md").write_text("somebody's\n")
    (decision,) = recover(store)
    assert not decision.done
    assert store.get(change_set_id).status == "held"
    changed = {name for name, facts in picture(workspace).items() if old[name] != facts}
    assert changed == {"docs/a.md"}
    assert (workspace / "docs" / "a.md").read_text() == "somebody's\n"


def test_recovery_without_a_workspace_says_so_and_keeps_the_set(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    change_set_id = call(SCRIPT).id
    assert killed_at(6, partial(apply_in, change_set_id))
    workspace.rename(workspace.with_name("elsewhere"))
    (decision,) = recover(store)
    assert not decision.done
    workspace.with_name("elsewhere").rename(workspace)
    (decision,) = recover(store)
    assert decision.done
    assert recover(store) == ()
