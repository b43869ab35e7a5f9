"""The view of an engine with other files than ours: sent, worked on there, and fetched back."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.workspace.changes.conftest import USER, actions, picture, run_on
from tests.workspace.local_carrier import LocalCarrier, sees_nothing

from sandboxed_tools.errors import EngineFault, SandboxUnavailable, UnsupportedOnEngine
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.mounts import WorkspaceMount
from sandboxed_tools.tool.result import ChangeSummary
from sandboxed_tools.workspace.apply import apply_set, undo_set
from sandboxed_tools.workspace.carry import CarriedView
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.views import WorkspaceViews

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="runs scripts as another user")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "state"
    monkeypatch.setenv("SANDBOXED_TOOLS_STATE_DIR", str(folder))
    yield folder
    assert [path.name for path in folder.glob("views/*")] == []


@pytest.fixture
def workspace(tmp_path: Path, state: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "main.py").write_text("print('hello')\n")
    (root / "keep.txt").write_text("keep\n" * 1000)
    (root / "secret.txt").write_text("secret\n")
    (root / "secret.txt").chmod(0o600)
    (root / "link").symlink_to("src/main.py")
    os.link(root / "keep.txt", root / "src" / "hard")
    return root


def open_view(
    workspace: Path, carrier: LocalCarrier, limits: Limits | None = None, **choices: Any
) -> CarriedView:
    views = WorkspaceViews(engine_sees=sees_nothing, carrier=carrier)
    choices = {"changes": "hold", **choices}
    view = views.open(WorkspaceMount(workspace, **choices), USER, limits=limits)
    assert isinstance(view, CarriedView)
    return view


def call(
    workspace: Path,
    script: str,
    *,
    carrier: LocalCarrier | None = None,
    limits: Limits | None = None,
    **choices: Any,
) -> ChangeSummary:
    view = open_view(workspace, carrier or LocalCarrier(), limits, **choices)
    try:
        run_on(view, script)
        return view.settle(ended_by_itself=True)
    finally:
        view.close()


def changed(summary: ChangeSummary) -> dict[str, str]:
    assert summary.id is not None
    return actions(ChangeStore().get(summary.id))


def test_what_is_there_is_the_workspace_and_belongs_to_the_user(workspace: Path) -> None:
    view = open_view(workspace, LocalCarrier())
    try:
        (mount,) = view.mounts
        assert (view.kind, mount.kind, mount.read_only) == ("copy", "volume", False)
        assert mount.targets == (str(workspace), "/workspace")
        assert any("does not share this machine's files" in note for note in view.warnings)
        there = Path(mount.source)
        shown = picture(there)
        owners = {facts[1:3] for facts in shown.values()}
        assert owners == {(USER.uid, USER.gid)}
        assert {name: (f[0], f[3], f[4]) for name, f in shown.items()} == {
            name: (f[0], f[3], f[4]) for name, f in picture(workspace).items()
        }
        assert (there / "keep.txt").stat().st_nlink == 2
        assert run_on(view, "cat secret.txt") == "secret\n"
    finally:
        view.close()
    assert not there.exists()


def test_changes_are_held_applied_and_undone_as_those_of_any_view(workspace: Path) -> None:
    before = picture(workspace)
    summary = call(
        workspace,
        "echo more >>keep.txt; rm secret.txt; mkdir new; echo x >new/x; chmod 700 src;"
        "ln -sfn keep.txt link; printf x >$'\\xff'; mv src/main.py src/moved.py",
    )
    assert picture(workspace) == before
    assert summary.decision == "held"
    found = changed(summary)
    assert found["keep.txt"] == "modified"
    assert found["secret.txt"] == "deleted"
    assert found["src"] == "mode"
    assert found["link"] == "symlink"
    assert found[os.fsdecode(b"\xff")] == found["new/x"] == found["src/moved.py"] == "added"
    assert summary.id is not None
    assert apply_set(ChangeStore(), summary.id).done
    assert (workspace / "new" / "x").read_text() == "x\n"
    assert not (workspace / "secret.txt").exists()
    assert undo_set(ChangeStore(), summary.id).done
    assert picture(workspace) == before


def test_a_call_that_changes_nothing_holds_nothing(workspace: Path) -> None:
    assert call(workspace, "cat keep.txt >/dev/null; ls -R").decision == "none"


def test_changes_are_found_though_size_and_times_are_put_back(workspace: Path) -> None:
    script = "touch -r keep.txt ../t; sed s/keep/KEEP/ -i keep.txt; touch -d @1 keep.txt"
    os.utime(workspace / "keep.txt", ns=(1, 1_000_000_000))
    assert changed(call(workspace, script))["keep.txt"] == "modified"


def test_files_that_the_call_has_closed_to_itself_come_back(workspace: Path) -> None:
    found = changed(call(workspace, "mkdir d; echo x >d/x; chmod 0 d/x d; chmod 0 secret.txt"))
    assert found == {"d": "added", "d/x": "added", "secret.txt": "mode"}


def test_held_changes_of_the_session_are_shown_to_its_next_call(workspace: Path) -> None:
    assert call(workspace, "echo one >new; rm secret.txt", session="s").decision == "held"
    view = open_view(workspace, LocalCarrier(), session="s")
    try:
        assert run_on(view, "cat new; ls") == "one\nkeep.txt\nlink\nnew\nsrc\n"
    finally:
        view.close()
    assert not (workspace / "new").exists()


def test_a_host_file_that_changed_meanwhile_is_a_conflict(workspace: Path) -> None:
    view = open_view(workspace, LocalCarrier())
    try:
        run_on(view, "echo theirs >>secret.txt")
        (workspace / "secret.txt").write_text("mine")
        summary = view.settle(ended_by_itself=True)
    finally:
        view.close()
    assert summary.id is not None
    decision = apply_set(ChangeStore(), summary.id)
    assert not decision.done
    assert [problem.kind for problem in decision.problems] == ["conflict"]
    assert (workspace / "secret.txt").read_text() == "mine"


def test_protected_paths_hold_the_set_though_it_was_to_be_applied(workspace: Path) -> None:
    summary = call(workspace, "mkdir -p .git/hooks; echo x >.git/hooks/pre-commit", changes="apply")
    assert summary.decision == "held"
    assert call(workspace, "echo x >fine", changes="apply").decision == "applied"


def test_a_copy_to_look_at_has_no_watcher_and_no_changes(workspace: Path) -> None:
    view = open_view(workspace, LocalCarrier(), access="read_only")
    try:
        assert view.watcher is None
        assert view.mounts[0].read_only
        assert view.settle(ended_by_itself=True).decision == "none"
    finally:
        view.close()


def test_usage_is_what_was_added_there(workspace: Path) -> None:
    view = open_view(workspace, LocalCarrier())
    try:
        assert (view.usage().changed_bytes, view.usage().entries) == (0, 0)
        run_on(view, "head -c 1000000 /dev/zero >big; mkdir d; touch d/1 d/2; truncate -s 1T s")
        used = view.usage()
        assert used.entries == 5
        assert 1_000_000 <= used.changed_bytes < 2_000_000
    finally:
        view.close()


@pytest.mark.parametrize("kind", ["copy", "carried"])
def test_counting_survives_folders_that_become_links_under_it(workspace: Path, kind: str) -> None:
    (workspace / "a" / "b").mkdir(parents=True)
    views = WorkspaceViews(
        engine_sees=sees_nothing if kind == "carried" else None, carrier=LocalCarrier()
    )
    view = views.open(WorkspaceMount(workspace, view="copy", changes="discard"), USER)
    there, over = Path(view.mounts[0].source), threading.Event()

    def swap() -> None:
        (there / "out").symlink_to("/")
        while not over.is_set():
            for one, two in (("a", "folder"), ("out", "a"), ("a", "out"), ("folder", "a")):
                os.rename(there / one, there / two)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(100):
            assert not view.usage().is_disk_low
    finally:
        over.set()
        swapper.join(60)
        view.close()


def test_a_top_that_was_closed_changes_nothing(workspace: Path) -> None:
    assert changed(call(workspace, "echo x >new; chmod 0 .")) == {"new": "added"}


def test_more_than_the_limits_allow_is_not_fetched(workspace: Path) -> None:
    before = picture(workspace)
    limits = Limits.of(changes_bytes="1m", changes_entries=20)
    for script in ("head -c 9000000 /dev/urandom >big", "for i in $(seq 99); do : >$i; done"):
        view = open_view(workspace, LocalCarrier(), limits)
        try:
            run_on(view, script)
            assert view.settle(ended_by_itself=True).decision == "discarded"
            assert any("discarded" in note for note in view.warnings)
        finally:
            view.close()
    assert picture(workspace) == before
    assert not ChangeStore().sets()


def test_only_what_changed_travels_back(workspace: Path) -> None:
    for number in range(200):
        (workspace / f"{number}.bin").write_bytes(os.urandom(10_000))
    seen: list[int] = []

    def count(data: bytes) -> bytes:
        seen.append(len(data))
        return data

    call(workspace, "echo one >>7.bin", carrier=LocalCarrier(count))
    assert sum(seen) < 12_000


def test_words_of_the_engine_that_cannot_be_end_as_its_fault(workspace: Path) -> None:
    before = picture(workspace)
    words: list[bytes] = []
    view = open_view(workspace, LocalCarrier(lambda data: words.pop() if words else data))
    try:
        run_on(view, "echo x >new")
        words.append(b"d\0\1/\0")
        with pytest.raises(EngineFault):
            view.settle(ended_by_itself=True)
    finally:
        view.close()
    assert picture(workspace) == before
    assert not ChangeStore().sets()


def test_a_helper_that_dies_ends_the_call_and_loses_nothing_here(workspace: Path) -> None:
    view = open_view(workspace, LocalCarrier())
    try:
        assert view.watcher is not None
        view.watcher.helper.close()
        assert view.usage().is_disk_low
        with pytest.raises(EngineFault):
            view.settle(ended_by_itself=True)
    finally:
        view.close()


def test_a_call_that_is_not_wanted_any_more_sends_nothing(workspace: Path) -> None:
    carrier = LocalCarrier()
    views = WorkspaceViews(engine_sees=sees_nothing, carrier=carrier)
    with pytest.raises(SandboxUnavailable, match="cancelled"):
        views.open(WorkspaceMount(workspace), USER, is_wanted=lambda: False)
    assert [Path(volume.name).exists() for volume in carrier.made] == [False]


def test_an_overlay_cannot_be_had_there(workspace: Path) -> None:
    with pytest.raises(UnsupportedOnEngine, match="does not share"):
        open_view(workspace, LocalCarrier(), view="overlay")


def test_nothing_of_the_helpers_program_needs_what_is_not_sent(tmp_path: Path) -> None:
    """Its modules import the standard library and each other, nothing that is only installed."""
    from sandboxed_tools.tool.carrier import HELPER_ARGV
    from sandboxed_tools.workspace.carry.program import program

    done = subprocess.run(
        HELPER_ARGV,
        input=program(job="watch", tree=str(tmp_path), lifetime_s=500, most_entries=1),
        cwd="/",
        capture_output=True,
        timeout=500,
        check=False,
    )
    assert (done.returncode, done.stderr, done.stdout[:1]) == (0, b"", b"r")
