"""A cursor stays in its tree, and notices when the tree is moved under it."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandboxed_tools.workspace import cursor as cursor_module
from sandboxed_tools.workspace.cursor import TreeCursor, TreeMoved, walk
from sandboxed_tools.workspace.remove import remove_tree


@pytest.fixture(params=["openat2", "openat"])
def top(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[int]:
    if request.param == "openat":
        monkeypatch.setattr(cursor_module, "openat2_available", lambda: False)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").touch()
    (tmp_path / "z").touch()
    fd = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def test_walks_in_order_and_tells_when_a_folder_is_left(top: int) -> None:
    with TreeCursor(top) as cursor:
        seen = [(b"/".join(entry.path), entry.left) for entry in walk(cursor)]
    assert seen == [
        (b"a", False),
        (b"a/b", False),
        (b"a/b/file", False),
        (b"a/b", True),
        (b"a", True),
        (b"z", False),
    ]


def test_a_link_in_place_of_a_folder_is_not_entered(top: int, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    with TreeCursor(top) as cursor, pytest.raises(OSError, match=r"link|Not a directory"):
        cursor.enter(b"link")


def test_a_folder_that_was_moved_away_has_no_way_back(top: int, tmp_path: Path) -> None:
    with TreeCursor(top) as cursor:
        cursor.enter(b"a")
        cursor.enter(b"b")
        (tmp_path / "a" / "b").rename(tmp_path / "moved")
        with pytest.raises(TreeMoved):
            cursor.leave()


def test_an_entry_that_vanishes_is_left_out(top: int, tmp_path: Path) -> None:
    with TreeCursor(top) as cursor:
        seen = []
        for entry in walk(cursor):
            if entry.name == b"b" and not entry.left:
                (tmp_path / "z").unlink()
            seen.append(entry.name)
    assert b"z" not in seen


def test_a_walk_keeps_no_path_for_each_folder_that_it_is_in(tmp_path: Path) -> None:
    depth, seen = 1500, 0
    (tmp_path / "deep").mkdir()
    top = here = os.open(tmp_path / "deep", os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        if here != top:
            os.close(here)
        here = below
    os.close(here)
    tracemalloc.start()
    try:
        with TreeCursor(top) as cursor:
            for _ in walk(cursor):
                seen += 1
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        os.close(top)
        # Deeper than the clean-up of the test's own folder can go.
        remove_tree(tmp_path / "deep")
    assert seen == 2 * depth
    # Paths of all levels would be nine megabytes of references alone.
    assert peak_bytes < 4_000_000
