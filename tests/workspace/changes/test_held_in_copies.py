"""Held sets are seen in a copy as in an overlay, whichever kind of view they come from."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandboxed_tools.tool.mounts import WorkspaceMount
from sandboxed_tools.workspace.apply import apply_set, undo_set
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.views import WorkspaceViews

from .conftest import USER, Call, actions, picture, run_in, run_on
from .test_against_plain_bash import COMMANDS, ENTRIES, make_tree

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts overlays")

PAIRS = [("overlay", "copy"), ("copy", "overlay"), ("copy", "copy")]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_the_next_call_sees_what_is_held_and_the_host_does_not(
    first: str, second: str, call: Call, workspace: Path
) -> None:
    before = picture(workspace)
    call(
        "echo one > new; rm keep.txt; rm -r docs; mkdir docs; echo x > docs/x; rm -r src/deep;"
        "rm run.sh; mkdir run.sh; echo y > run.sh/y; chmod 700 src; rm link; ln -s new link",
        session="s",
        view=first,
    )
    seen = call(
        "cat link; ls; ls docs src run.sh; stat -c %a src", session="s", view=second
    ).output.split()
    assert " ".join(seen) == (
        "one docs link new run.sh secret.txt src docs: x run.sh: y src: hard main.py 700"
    )
    assert picture(workspace) == before


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_later_set_has_only_what_the_later_call_changed(
    first: str, second: str, call: Call, store: ChangeStore
) -> None:
    call("echo one > new; sed -i s/two/TWO/ secret.txt; rm -r docs", session="s", view=first)
    looked = call("cat new secret.txt; ls -R", session="s", view=second)
    assert looked.summary.decision == "none"
    later = store.get(
        call("echo more >> new; rm secret.txt; mkdir docs", session="s", view=second).id
    )
    assert actions(later) == {"new": "modified", "secret.txt": "deleted", "docs": "added"}


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_later_calls_build_on_no_copy_that_changes_nothing(
    first: str, second: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = picture(workspace)
    earlier = call("echo keep > keep.txt; echo one > new", session="s", view=first)
    assert actions(store.get(earlier.id)) == {"new": "added"}
    later = call("rm keep.txt; mkdir keep.txt", session="s", view=second)
    for change_set_id in (earlier.id, later.id):
        decision = apply_set(store, change_set_id)
        assert decision.done, decision.problems
    for change_set_id in (later.id, earlier.id):
        assert undo_set(store, change_set_id).done
    assert picture(workspace) == before


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_what_is_held_is_not_written_through(
    first: str, second: str, call: Call, store: ChangeStore
) -> None:
    held = call("echo one > new; ln new other", session="s", view=first).id
    before = picture(store.upper(held))
    call("echo two >> new; chmod 600 other; rm link", session="s", view=second)
    assert picture(store.upper(held)) == before


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_sets_of_both_views_are_merged_applied_and_undone(
    first: str, second: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = picture(workspace)
    for number in range(19):
        call(
            f"echo {number} >> all; echo {number} > file{number}; rm -f file{number - 2};"
            f"rm -rf d; mkdir d; echo {number} > d/{number}; rm -rf e; [ -e e ] || mkdir -p e/f",
            session="s",
            view=(first, second)[number % 2],
        )
    seen = call("cat all; ls . d e", session="s", view=second).output
    assert seen == call("cat all; ls . d e", session="s", view=first).output
    pending = store.pending(workspace=workspace, session="s")
    assert len(pending) <= 16
    for state in pending:
        decision = apply_set(store, state.id)
        assert decision.done, decision.problems
    assert call("cat all; ls . d e").output == seen
    for state in reversed(pending):
        assert undo_set(store, state.id).done
    assert picture(workspace) == before


def test_a_read_only_copy_shows_what_is_held(call: Call) -> None:
    call("echo one > new; rm keep.txt", session="s")
    called = call("cat new; ls keep.txt", session="s", view="copy", access="read_only")
    assert called.output.startswith("one\n")
    assert "No such file" in called.output


def test_what_is_held_costs_a_later_copy_nothing_of_its_limits(
    state: Path, workspace: Path, call: Call
) -> None:
    call("head -c 3000000 /dev/zero > big; mkdir d; touch d/{1..50}", session="s")
    view = WorkspaceViews().open(
        WorkspaceMount(source=workspace, changes="hold", session="s", view="copy"), USER
    )
    try:
        assert (view.usage().changed_bytes, view.usage().entries) == (0, 0)
    finally:
        view.close()


def test_a_fifo_that_is_held_is_left_out_of_a_copy_and_not_marked_as_deleted(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    os.mkfifo(workspace / "pipe")
    os.mknod(workspace / "nothing", 0o20644, 0)
    call("rm keep.txt; mkfifo keep.txt; mkfifo other", session="s", view="overlay")
    called = call("ls; echo x > new", session="s", view="copy")
    assert called.output.split() == ["docs", "link", "run.sh", "secret.txt", "src"]
    assert actions(store.get(called.id)) == {"new": "added"}
    again = call("ls; echo y > new", session="s", view="overlay")
    assert "keep.txt" in again.output.split()
    assert actions(store.get(again.id)) == {"new": "modified"}


@pytest.mark.parametrize("choice", ["overlay", "copy"])
def test_a_device_that_marks_nothing_deletes_nothing(
    choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    os.mknod(workspace / "src" / "nothing", 0o20644, 0)
    called = call("mknod x c 0 0; mknod src/y c 0 0; echo z > src/z", view=choice)
    assert actions(store.get(called.id)) == {"src/z": "added"}
    assert apply_set(store, called.id).done
    assert (workspace / "src" / "nothing").is_char_device()


def test_what_an_overlay_would_believe_is_not_taken_from_a_copy(
    call: Call, store: ChangeStore
) -> None:
    plant = (
        "import os; open('new', 'w').close()\n"
        "for name in ('new', 'keep.txt', 'docs'):\n"
        "    for mark in ('metacopy', 'redirect', 'opaque'):\n"
        "        os.setxattr(name, 'user.overlay.' + mark, b'y')\n"
    )
    called = call(f'echo x > docs/x; echo y >> keep.txt; python3 -c "{plant}"', view="copy")
    assert called.output == ""
    upper = store.upper(called.id)
    assert {path.name for path in upper.rglob("*")} == {"docs", "x", "keep.txt", "new"}
    for path in upper.rglob("*"):
        assert os.listxattr(path) == []


@pytest.mark.parametrize("choice", ["overlay", "copy"])
def test_a_folder_keeps_its_set_group_bit_while_files_come_and_go_in_it(
    choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    (workspace / "docs").chmod(0o2775)
    called = call("echo x > docs/x; rm docs/a.md", view=choice)
    assert actions(store.get(called.id)) == {"docs/x": "added", "docs/a.md": "deleted"}
    assert apply_set(store, called.id).done
    assert (workspace / "docs").stat().st_mode & 0o7777 == 0o2775


CALLS = st.lists(
    st.tuples(st.sampled_from(("overlay", "copy")), st.lists(COMMANDS, min_size=1, max_size=4)),
    min_size=2,
    max_size=4,
)


@pytest.mark.timeout(900)  # of the forty examples each starts a dozen processes
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(entries=ENTRIES, calls=CALLS)
def test_calls_on_either_view_add_up_to_plain_bash(
    state: Path, entries: dict[tuple[str, ...], str], calls: list[tuple[str, list[str]]]
) -> None:
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        Path(folder).chmod(0o711)
        workspace, oracle = Path(folder, "workspace"), Path(folder, "oracle")
        workspace.mkdir()
        make_tree(workspace, entries)
        shutil.copytree(workspace, oracle, symlinks=True)
        for path in (oracle, *oracle.rglob("*")):
            os.chown(path, USER.uid, USER.gid, follow_symlinks=False)
        before = picture(workspace)
        views = WorkspaceViews()
        ids = []
        for choice, commands in calls:
            script = "\n".join(f"{command} 2>/dev/null" for command in commands)
            run_in(oracle, script)
            mount = WorkspaceMount(
                source=workspace,
                changes="hold",
                session="s",
                view=choice,  # type: ignore[arg-type]
            )
            view = views.open(mount, USER)
            try:
                run_on(view, script)
                ids.append(view.settle(ended_by_itself=True).id)
            finally:
                view.close()
            assert picture(workspace) == before
        for path in (oracle, *oracle.rglob("*")):
            os.chown(path, 0, 0, follow_symlinks=False)
        store = ChangeStore()
        held = [name for name in ids if name is not None]
        for name in held:
            decision = apply_set(store, name, allow_protected=True)
            assert decision.done, decision.problems
        assert _below(workspace) == _below(oracle)
        for name in reversed(held):
            assert undo_set(store, name).done
        assert picture(workspace) == before
        for name in reversed(held):
            store.remove(name)


def _below(root: Path) -> dict[str, tuple[object, ...]]:
    return {name: facts for name, facts in picture(root, times=False).items() if name != "."}
