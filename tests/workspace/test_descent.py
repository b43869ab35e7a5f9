"""Going from folder to folder of a deep tree leads to the same folders as going there directly."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandboxed_tools.workspace import confined as confined_module
from sandboxed_tools.workspace.descent import Descent
from sandboxed_tools.workspace.layers import confined
from sandboxed_tools.workspace.openat2 import openat2, openat2_available

DEPTH = 70


def folders(top: Path) -> dict[bytes, int]:
    """A chain of folders with a side chain at each tenth: paths, and the inodes there."""
    paths = [b"/".join([b"d"] * depth) for depth in range(1, DEPTH + 1)]
    paths += [
        b"/".join([*[b"d"] * depth, *[b"side"] * length])
        for depth in range(0, DEPTH, 10)
        for length in range(1, 40)
    ]
    for path in paths:
        os.makedirs(os.path.join(os.fsencode(top), path), exist_ok=True)
    return {path: os.stat(os.path.join(os.fsencode(top), path)).st_ino for path in (*paths, b".")}


@pytest.fixture(params=[True, False], ids=["openat2", "by name"])
def descent(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Descent]:
    """A descent into the folder ``tree``, also as on kernels without openat2(2)."""
    if request.param and not openat2_available():
        pytest.skip("this kernel has no openat2")
    (tmp_path / "tree").mkdir()
    top = os.open(tmp_path / "tree", os.O_RDONLY)
    before = len(os.listdir("/proc/self/fd"))
    tree = confined_module.ConfinedTree.over(
        top, text="", spelled=lambda _: None, use_openat2=request.param
    )
    with Descent(tree) as descent:
        yield descent
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(top)


@pytest.mark.parametrize("order", ["parents first", "deepest first", "any"])
def test_each_folder_is_the_one_that_its_path_names(
    descent: Descent, tmp_path: Path, order: str
) -> None:
    inodes = folders(tmp_path / "tree")
    inodes[b""] = inodes.pop(b".")
    paths = sorted(inodes, key=lambda path: path.split(b"/"), reverse=order == "deepest first")
    if order == "any":
        random.Random(7).shuffle(paths)
    for path in paths:
        assert os.fstat(descent.at(path)).st_ino == inodes[path], path


def test_a_folder_that_is_missing_disturbs_no_later_one(descent: Descent, tmp_path: Path) -> None:
    inodes = folders(tmp_path / "tree")
    deep = b"/".join([b"d"] * 50)
    for path in (deep, deep + b"/missing/more", deep, b"missing", deep + b"/side"):
        if b"missing" in path:
            with pytest.raises(FileNotFoundError):
                descent.at(path)
        else:
            assert os.fstat(descent.at(path)).st_ino == inodes[path]


def test_the_way_up_from_a_folder_that_was_moved_out_leads_nowhere_else(
    descent: Descent, tmp_path: Path
) -> None:
    inodes = folders(tmp_path / "tree")
    descent.at(b"/".join([b"d"] * 60))
    outside = tmp_path.joinpath("outside", *["o"] * 60)
    outside.mkdir(parents=True)
    tmp_path.joinpath("tree", *["d"] * 40).rename(outside / "d")
    path = b"/".join([*[b"d"] * 30, *[b"side"] * 20])
    assert os.fstat(descent.at(path)).st_ino == inodes[path]
    with pytest.raises(FileNotFoundError):
        descent.at(b"/".join([b"d"] * 41))


@pytest.mark.parametrize("depth", [3, 16, 17, 33, 50])
def test_a_link_that_takes_a_folders_place_is_not_followed(
    descent: Descent, tmp_path: Path, depth: int
) -> None:
    folders(tmp_path / "tree")
    descent.at(b"/".join([b"d"] * (depth - 1)))
    place = tmp_path.joinpath("tree", *["d"] * depth)
    place.rename(tmp_path / "moved")
    place.symlink_to(tmp_path / "moved")
    with pytest.raises(OSError, match=r"link|directory|symbolic") as refused:
        descent.at(b"/".join([b"d"] * 60))
    assert refused.value.errno in (errno.ELOOP, errno.ENOTDIR)


@pytest.mark.skipif(not openat2_available(), reason="counts names in openat2")
def test_going_through_a_deep_tree_costs_its_depth_and_not_the_square_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    depth, names = 600, 0

    def counting(dir_fd: int, path: bytes, flags: int, *, resolve: int) -> int:
        nonlocal names
        names += path.count(b"/") + 1
        return openat2(dir_fd, path, flags, resolve=resolve)

    monkeypatch.setattr(confined_module, "openat2", counting)
    os.makedirs(tmp_path.joinpath(*["d"] * depth))
    top = os.open(tmp_path, os.O_RDONLY)
    with Descent(confined(top)) as descent:
        for below in (*range(1, depth), *range(depth, 0, -1)):
            descent.at(b"/".join([b"d"] * below))
    os.close(top)
    # Twice there and back, with up to sixteen names from where the way is known.
    assert names < 2 * depth * 20
