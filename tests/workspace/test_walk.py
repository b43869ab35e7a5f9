"""Walking hostile trees within budgets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandboxed_tools.workspace.root import WorkspaceRoot
from sandboxed_tools.workspace.walk import Walk, WalkBudget

# The time that a walk has by default can be over on a busy machine.
PATIENT = WalkBudget(wall_s=500)


@pytest.fixture(params=[True, False], ids=["openat2", "name by name"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WorkspaceRoot]:
    workspace = tmp_path / "project"
    workspace.mkdir()
    with WorkspaceRoot.open(workspace, use_openat2=request.param) as opened:
        yield opened


def seen(walk: Walk[None]) -> set[str]:
    names = set()
    walk.push((), None)
    for folder in walk:
        for entry in walk.entries(folder):
            parts = (*folder.parts, os.fsencode(entry.name))
            names.add(os.fsdecode(b"/".join(parts)))
            if entry.is_dir(follow_symlinks=False):
                walk.push(parts, None)
    return names


def test_everything_is_seen_once_and_links_are_not_entered(root: WorkspaceRoot) -> None:
    (root.path / "a" / "b").mkdir(parents=True)
    (root.path / "a" / "b" / "c").touch()
    os.symlink(".", root.path / "a" / "self")
    os.symlink("/", root.path / "a" / "root")
    os.symlink("../..", root.path / "a" / "b" / "up")
    walk: Walk[None] = Walk(root.tree, budget=PATIENT)
    assert seen(walk) == {"a", "a/b", "a/b/c", "a/self", "a/root", "a/b/up"}
    assert walk.is_complete
    assert walk.entries_seen == 6
    assert walk.folders_seen == 3


def test_a_tree_of_link_farms_is_seen_in_its_own_size(root: WorkspaceRoot) -> None:
    for one in range(15):
        (root.path / f"d{one}").mkdir()
        for other in range(15):
            os.symlink(f"../d{other}", root.path / f"d{one}" / f"l{other}")
    assert len(seen(Walk(root.tree, budget=PATIENT))) == 15 + 15 * 15


def test_depth_is_bounded_and_reported(root: WorkspaceRoot) -> None:
    os.close(root.tree.make_folders((b"d",) * 600))
    walk: Walk[None] = Walk(root.tree, budget=PATIENT)
    assert len(seen(walk)) == 513
    assert walk.too_deep == 1
    assert not walk.is_complete


def test_three_hundred_levels_are_walked(root: WorkspaceRoot) -> None:
    os.close(root.tree.make_folders((b"d" * 100,) * 300))
    walk: Walk[None] = Walk(root.tree, budget=PATIENT)
    assert len(seen(walk)) == 300
    assert walk.is_complete


def test_a_walk_stops_at_its_entries_and_says_so(root: WorkspaceRoot) -> None:
    for number in range(2000):
        (root.path / str(number)).touch()
    walk: Walk[None] = Walk(root.tree, budget=WalkBudget(max_entries=600))
    assert len(seen(walk)) < 1200
    assert walk.stopped == "entries"


def test_a_walk_remembers_a_bounded_number_of_folders(root: WorkspaceRoot) -> None:
    for number in range(50):
        (root.path / str(number)).mkdir()
    walk: Walk[None] = Walk(root.tree, budget=WalkBudget(max_pending=20))
    seen(walk)
    assert walk.stopped == "entries"


def test_a_walk_stops_at_its_time_and_when_cancelled(root: WorkspaceRoot) -> None:
    (root.path / "a").touch()
    late: Walk[None] = Walk(root.tree, budget=WalkBudget(wall_s=0))
    assert seen(late) == set()
    assert late.stopped == "time"
    cancelled: Walk[None] = Walk(root.tree, is_cancelled=lambda: True)
    assert seen(cancelled) == set()
    assert cancelled.stopped == "cancelled"


def test_a_folder_that_became_a_link_is_skipped(root: WorkspaceRoot, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").touch()
    (root.path / "a").mkdir()
    walk: Walk[None] = Walk(root.tree, budget=PATIENT)
    walk.push((b"a",), None)
    (root.path / "a").rmdir()
    os.symlink("../outside", root.path / "a")
    assert "secret" not in {e.name for folder in walk for e in walk.entries(folder)} - {"a"}
    assert walk.folders_seen == 0


def test_no_descriptor_is_left_when_a_walk_is_abandoned(root: WorkspaceRoot) -> None:
    (root.path / "a").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    walk: Walk[None] = Walk(root.tree, budget=PATIENT)
    walk.push((), None)
    folders = iter(walk)
    entries = walk.entries(next(folders))
    next(entries)
    entries.close()  # type: ignore[attr-defined]
    folders.close()  # type: ignore[attr-defined]
    assert len(os.listdir("/proc/self/fd")) == before
