"""What a session holds is seen by its next calls, by nobody else, and decided in its order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandboxed_tools.tool.mounts import WorkspaceMount
from sandboxed_tools.workspace.apply import apply_set, discard_set, undo_set
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.views import WorkspaceViews

from .conftest import USER, Call, actions, picture, run_on

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts overlays")


def test_the_next_call_sees_what_is_held_and_the_host_does_not(call: Call, workspace: Path) -> None:
    before = picture(workspace)
    call("echo one > new; rm keep.txt; rm -r docs; mkdir docs; echo x > docs/x", session="s")
    seen = call("cat new; ls; ls docs; echo two >> new", session="s").output.split()
    assert seen == ["one", "docs", "link", "new", "run.sh", "secret.txt", "src", "x"]
    assert call("cat new", session="s").output == "one\ntwo\n"
    assert picture(workspace) == before


@pytest.mark.parametrize("other", ["t", None])
def test_another_session_sees_nothing_of_it(other: str | None, call: Call) -> None:
    call("echo one > new", session="s")
    assert "No such file" in call("cat new", session=other).output


def test_a_later_set_has_only_what_the_later_call_changed(call: Call, store: ChangeStore) -> None:
    call("echo one > new; sed -i s/two/TWO/ secret.txt", session="s")
    later = store.get(call("echo more >> new; rm secret.txt", session="s").id)
    assert actions(later) == {"new": "modified", "secret.txt": "deleted"}
    assert {change.layer for change in later.changes} == set(later.layers)


def test_what_a_later_call_takes_back_is_a_change_of_its_own(
    call: Call, store: ChangeStore
) -> None:
    call("echo one > new; rm keep.txt", session="s")
    later = store.get(call("rm new; echo keep > keep.txt", session="s").id)
    assert actions(later) == {"new": "deleted", "keep.txt": "added"}


def test_sets_are_applied_in_their_order_and_undone_in_reverse(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    scripts = [
        "echo one > new; sed -i s/two/TWO/ secret.txt; mkdir dir; echo a > dir/a; rm docs/a.md",
        "echo two >> new; rm secret.txt; echo b > dir/b; chmod 700 dir; rm -r docs",
        "rm -r dir; echo three > new; mkdir docs; echo last > docs/last",
    ]
    ids = [call(script, session="s").id for script in scripts]
    final = call("find . -type f | sort | xargs tail -n +1", session="s").output
    decision = apply_set(store, ids[1])
    assert "apply that first" in str(decision.problems[0])
    for change_set_id in ids:
        decision = apply_set(store, change_set_id)
        assert decision.done, decision.problems
    assert call("find . -type f | sort | xargs tail -n +1").output == final


def test_undoing_in_reverse_restores_everything(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = picture(workspace)
    ids = [
        call("echo one > new; sed -i s/two/TWO/ secret.txt", session="s").id,
        call("echo two >> new; rm secret.txt; rm -r docs", session="s").id,
    ]
    for change_set_id in ids:
        assert apply_set(store, change_set_id).done
    assert not undo_set(store, ids[0]).done
    for change_set_id in reversed(ids):
        decision = undo_set(store, change_set_id)
        assert decision.done, decision.problems
    assert picture(workspace) == before


def test_a_set_that_others_build_on_is_not_discarded(call: Call, store: ChangeStore) -> None:
    first = call("echo one > new", session="s").id
    second = call("echo two >> new", session="s").id
    decision = discard_set(store, first)
    assert second in str(decision.problems[0])
    assert discard_set(store, second).done
    assert discard_set(store, first).done


def test_a_view_made_before_the_last_set_is_out_of_date(
    call: Call, workspace: Path, state: Path
) -> None:
    views = WorkspaceViews()
    mount = WorkspaceMount(source=workspace, changes="hold", session="s")
    early = views.open(mount, USER)
    version = views.version(mount)
    try:
        assert early.begin()
        call("echo one > new", session="s")
        assert not early.begin()
        assert views.version(mount) != version
    finally:
        early.close()


def test_more_sets_than_an_overlay_takes_are_merged(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = picture(workspace)
    for number in range(20):
        call(
            f"echo {number} > file{number}; echo {number} >> all; rm -f file{number - 3};"
            f"rm -rf d; mkdir d; echo {number} > d/{number}; chmod {600 + number % 8} keep.txt",
            session="s",
        )
    seen = call("cat all; ls; ls d", session="s").output.split()
    assert seen[:20] == [str(number) for number in range(20)]
    assert "file19" in seen
    assert "file16" not in seen
    assert seen[-1] == "19"
    pending = store.pending(workspace=workspace, session="s")
    assert len(pending) <= 16
    for state in pending:
        decision = apply_set(store, state.id)
        assert decision.done, decision.problems
    assert (workspace / "all").read_text().split() == seen[:20]
    for state in reversed(pending):
        assert undo_set(store, state.id).done
    assert picture(workspace) == before


def test_read_only_calls_see_what_is_held(call: Call, workspace: Path, state: Path) -> None:
    call("echo one > new; rm keep.txt", session="s")
    view = WorkspaceViews().open(
        WorkspaceMount(source=workspace, access="read_only", session="s"), USER
    )
    try:
        output = run_on(view, "cat new; ls keep.txt; touch x")
    finally:
        view.close()
    assert output.startswith("one\n")
    assert output.count("No such file") == 1
    assert output.count("Read-only") == 1
