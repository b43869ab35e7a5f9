"""Maps cover every id once, and a mount shows other owners without changing the disk."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxed_tools.workspace.idmap import IdMap, id_map_lines, mount_folder, unmount

IDS = st.integers(min_value=0, max_value=2**32 - 2)


@given(disk=IDS, shown=IDS)
def test_a_map_has_no_overlaps_and_keeps_everybody_else(disk: int, shown: int) -> None:
    ranges = [tuple(map(int, line.split())) for line in id_map_lines(disk, shown).splitlines()]
    assert len(ranges) <= 340
    for side in (0, 1):
        spans = sorted((start[side], start[side] + start[2]) for start in ranges)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
        assert spans[-1][1] <= 2**32 - 1
    assert (disk, shown, 1) in ranges or disk == shown
    mapped = sum(count for _, _, count in ranges)
    assert mapped == 2**32 - 1 - (disk != shown)
    assert all(inside == outside for inside, outside, count in ranges if inside != disk)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_mount_shows_other_owners_is_read_only_and_leaves_the_disk_alone(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    (source / "mine").touch(0o600)
    (source / "other").touch()
    os.chown(source / "other", 55, 66)
    fd = os.open(source, os.O_PATH)
    try:
        mount_folder(fd, target, ids=IdMap(0, 0, 70001, 70002))
        shown = (target / "mine").stat()
        assert (shown.st_uid, shown.st_gid) == (70001, 70002)
        assert (target / "other").stat().st_uid == 55
        with pytest.raises(OSError, match="Read-only"):
            (target / "new").touch()
    finally:
        os.close(fd)
        unmount(target)
    assert (source / "mine").stat().st_uid == 0
    assert list(target.iterdir()) == []
    unmount(target)
