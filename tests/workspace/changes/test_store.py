"""The store forgets what it may, keeps what it must, and lets one decide at a time."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sandboxed_tools.errors import ChangeSetNotFound, Overloaded
from sandboxed_tools.tool.mounts import WorkspaceMount
from sandboxed_tools.workspace.apply import apply_set, undo_set
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.regroup import merge_oldest
from sandboxed_tools.workspace.views import WorkspaceViews
from sandboxed_tools.workspace.workspace_lock import workspace_lock

from .conftest import USER, Call

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts overlays")

DAY_S = 24 * 3600.0


def age(store: ChangeStore, change_set_id: str, seconds: float) -> None:
    """Make a set older."""
    change_set = store.get(change_set_id)
    older = dataclasses.replace(
        change_set,
        created_s=change_set.created_s - seconds,
        decided_s=None if change_set.decided_s is None else change_set.decided_s - seconds,
    )
    store.save_state(older, sync=False)


def test_old_decided_sets_are_forgotten_and_held_ones_never(call: Call, store: ChangeStore) -> None:
    held, old, new = (call(f"echo x > {name}").id for name in ("held", "old", "new"))
    assert apply_set(store, old).done
    assert apply_set(store, new).done
    for change_set_id in (held, old):
        age(store, change_set_id, 40 * DAY_S)
    assert store.prune() == 1
    assert {item.id for item in store.sets()} == {held, new}


def test_decided_sets_together_stay_within_a_size(call: Call, store: ChangeStore) -> None:
    ids = []
    for name in ("a", "b", "c"):
        ids.append(call(f"head -c 300000 /dev/zero > {name}").id)
        assert apply_set(store, ids[-1]).done
        assert undo_set(store, ids[-1]).done
    assert store.prune(max_bytes=700_000) == 1
    assert {item.id for item in store.sets()} == set(ids[1:])


def test_a_decided_set_that_a_held_one_builds_on_stays(call: Call, store: ChangeStore) -> None:
    first = call("echo x > a", session="s").id
    call("echo y >> a", session="s")
    assert apply_set(store, first).done
    age(store, first, 40 * DAY_S)
    assert store.prune() == 0
    assert first in {item.id for item in store.sets()}


def test_a_set_that_is_being_decided_about_is_not_forgotten(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    old = call("echo x > a").id
    assert apply_set(store, old).done
    age(store, old, 40 * DAY_S)
    with workspace_lock(os.fsencode(workspace)):
        assert store.prune() == 0
    assert store.prune() == 1


def test_replaced_sets_are_gone_at_once_and_their_content_later(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    ids = [call(f"echo {name} > {name}", session="s").id for name in ("a", "b")]
    merged = merge_oldest(store, workspace=workspace, session="s")
    assert [item.id for item in store.sets()] == [merged.id]
    for change_set_id in ids:
        with pytest.raises(ChangeSetNotFound, match=merged.id):
            apply_set(store, change_set_id)
    assert store.prune() == 0
    assert store.upper(ids[0]).exists()
    age(store, merged.id, 3 * DAY_S)
    assert store.prune() == 2
    assert not store.upper(ids[0]).exists()
    assert apply_set(store, merged.id).done
    assert (workspace / "a").read_text() + (workspace / "b").read_text() == "a\nb\n"


def test_a_draft_of_a_living_process_is_left_alone(store: ChangeStore) -> None:
    with store.empty_draft("01234567"):
        assert store.prune() == 0
        assert store.sets() == ()
        with pytest.raises(ChangeSetNotFound):
            store.get("01234567")
    assert list(store.folder.iterdir()) == []


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"id": 1}', "\x00", "\xff"])
def test_a_damaged_set_is_not_listed_and_harms_no_other(
    content: str, call: Call, store: ChangeStore
) -> None:
    good, bad = call("echo x > a").id, call("echo x > b").id
    (store.folder / bad / "state.json").write_text(content)
    assert [item.id for item in store.sets()] == [good]
    with pytest.raises(ChangeSetNotFound):
        store.get(bad)
    assert apply_set(store, good).done


@pytest.mark.parametrize("fact", [{"created_s": ""}, {"created_s": None}, {"id": "01234567"}])
def test_a_set_of_which_one_fact_is_wrong_is_not_listed(
    fact: dict[str, object], call: Call, store: ChangeStore
) -> None:
    good, bad = call("echo x > a").id, call("echo x > b").id
    place = store.folder / bad / "state.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | fact))
    assert [item.id for item in store.sets()] == [good]
    with pytest.raises(ChangeSetNotFound):
        store.get(bad)


@pytest.mark.usefixtures("state")
def test_one_decision_at_a_time_for_a_workspace() -> None:
    with workspace_lock(b"/w"):
        with pytest.raises(Overloaded), workspace_lock(b"/w", wait_s=0.2):
            pass
        with workspace_lock(b"/other"):
            pass
    with workspace_lock(b"/w"):
        pass


def test_two_threads_that_apply_the_same_set_apply_it_once(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    change_set_id = call("echo x >> secret.txt; mkdir d; echo y > d/y").id
    done: list[bool] = []
    threads = [
        threading.Thread(target=lambda: done.append(apply_set(ChangeStore(), change_set_id).done))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert done == [True] * 4
    assert (workspace / "secret.txt").read_text() == "one\ntwo\nthree\nx\n"


def test_a_disk_that_is_nearly_full_is_reported_while_the_call_runs(
    state: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = WorkspaceViews().open(WorkspaceMount(source=workspace), USER)
    real: Callable[[Path], os.statvfs_result] = os.statvfs
    try:
        assert not view.usage().is_disk_low
        full = list(real(workspace))
        full[4] = 10  # f_bavail
        monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(full))
        assert view.usage().is_disk_low
    finally:
        view.close()
