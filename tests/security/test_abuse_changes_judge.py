"""The judge of hostile change sets tells what may be left in a workspace from what may not."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.security.abuse_changes import (
    ROWS,
    Picture,
    Row,
    descriptions,
    picture,
    shown_faults,
    strange_entries,
)

ROW = Row("r", "kind", ("true",), "applied", changes=({"new": "added"},))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "sub").mkdir(parents=True)
    (root / "file").write_text("x")
    (root / "sub" / "link").symlink_to("../file")
    return root


def strange(before: Picture, root: Path) -> list[str]:
    return list(strange_entries(before, picture(root), owner=os.geteuid()))


def test_what_a_call_may_leave_has_no_fault(tree: Path) -> None:
    before = picture(tree)
    (tree / "new").write_text("x")
    (tree / "file").write_text("y")
    (tree / "other").symlink_to("/")
    (tree / "sub").chmod(0o700)
    assert strange(before, tree) == []
    assert {name for name, facts in picture(tree).items() if before.get(name) != facts} == {
        *(".", "new", "file", "other", "sub")
    }


@pytest.mark.parametrize(
    "act",
    [
        lambda root: os.mkfifo(root / "new"),
        lambda root: (root / "file").chmod(0o4755),
        lambda root: (root / "sub").chmod(0o2755),
        lambda root: os.setxattr(root / "file", "user.evil", b"x"),
    ],
)
def test_what_no_call_may_leave_is_a_fault(act: Callable[[Path], None], tree: Path) -> None:
    before = picture(tree)
    act(tree)
    assert len(strange(before, tree)) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files away")
def test_another_owner_is_a_fault(tree: Path) -> None:
    before = picture(tree)
    os.chown(tree / "sub" / "link", 4711, 4711, follow_symlinks=False)
    assert len(strange(before, tree)) == 1


def test_every_fact_of_an_entry_is_in_the_picture(tree: Path) -> None:
    before = picture(tree)
    os.utime(tree / "file", ns=(0, 1))
    (tree / "sub" / "link").unlink()
    (tree / "sub" / "link").symlink_to("../elsewhere")
    now = picture(tree)
    assert {name for name in now if now[name] != before[name]} == {"file", "sub", "sub/link"}


def test_a_picture_goes_as_deep_as_a_tree(tree: Path) -> None:
    here = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(30):
        os.mkdir(b"n" * 255, dir_fd=here)
        below = os.open(b"n" * 255, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    assert max(name.count("/") for name in picture(tree)) == 29


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({}, {}),
        ({}, {"new": "modified"}),
        ({}, {"new": "added", "more": "added"}),
        ({"changes": None, "changes_count": (2,)}, {"new": "added"}),
        ({"changes": None, "changes_has": {"x": "added"}}, {"new": "added"}),
        ({"changes_of": {"copy": ({"x": "added"},)}}, {"new": "added"}),
        ({"notes_has": "set-id"}, {"new": "added"}),
    ],
)
def test_a_set_that_shows_something_else_is_a_fault(
    change: dict[str, object], shown: dict[str, str]
) -> None:
    assert list(shown_faults(ROW, "copy", [{"new": "added"}], "")) == []
    row: Row = replace(ROW, **change)  # type: ignore[arg-type]
    assert list(shown_faults(row, "copy", [shown], ""))


def test_descriptions_tell_kinds_modes_and_contents(tree: Path) -> None:
    (tree / "large").touch()
    os.truncate(tree / "large", 2**22)
    found = picture(tree)
    assert 'file 0644 "x"' in descriptions(found["file"])
    assert "link ../file" in descriptions(found["sub/link"])
    assert "file 0644 sparse" in descriptions(found["large"])
    assert descriptions(None) == ("absent",)


def test_every_row_says_what_its_sets_must_show() -> None:
    assert [
        r.id for r in ROWS if not (r.changes or r.changes_has or r.changes_count or r.changes_of)
    ] == []
    assert [row.id for row in ROWS if bool(row.forced) != (row.outcome == "conflict")] == []
    assert [row.id for row in ROWS if bool(row.meanwhile) != (row.outcome == "conflict")] == []
