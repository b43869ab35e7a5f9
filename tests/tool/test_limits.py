"""Limits: every one finite, sizes as people write them, errors that name the limit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxed_tools.errors import InvalidLimits
from sandboxed_tools.tool import Limits
from sandboxed_tools.tool.limits import parse_size

MIB = 1024 * 1024


def test_the_defaults_are_the_documented_ones() -> None:
    limits = Limits()
    assert limits.memory_bytes == 512 * MIB
    assert limits.cpus == 1
    assert limits.pids == 128
    assert limits.wall_s == 120
    assert limits.idle_s is None
    assert limits.output_kept_bytes == MIB
    assert limits.output_total_bytes == 64 * MIB
    assert limits.tmp_bytes == 128 * MIB
    assert limits.file_bytes == limits.changes_bytes == 1024 * MIB
    assert limits.open_files == 1024
    assert limits.changes_entries == 200_000


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512m", 512 * MIB),
        ("512M", 512 * MIB),
        ("512MiB", 512 * MIB),
        ("512mb", 512 * MIB),
        ("1.5g", 1536 * MIB),
        ("16777216", 16 * MIB),
        (" 64m ", 64 * MIB),
    ],
)
def test_a_size_is_read_as_people_write_it(text: str, size: int) -> None:
    assert Limits.of(memory_bytes=text).memory_bytes == size


@pytest.mark.parametrize(
    "value",
    [
        "0",
        "-1",
        "9e99",
        "lots",
        "",
        "1 2m",
        "512x",
        "١٢m",
        "0x10",
        -1,
        0,
        1e99,
        True,
        None,
        [],
        "1k",
    ],
)
def test_a_size_that_cannot_be_meant_is_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidLimits, match="memory_bytes"):
        Limits.of(memory_bytes=value)


@pytest.mark.parametrize(
    "value", ["abc", "", 0, -1, 1e9, float("nan"), float("inf"), "nan", "inf", True, None, "1e9"]
)
def test_a_timeout_that_cannot_be_meant_is_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidLimits, match="wall_s"):
        Limits.of(wall_s=value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("cpus", 0.05), ("cpus", 0), ("pids", 513), ("pids", 0), ("pids", 1.5), ("colour", 1)],
)
def test_a_limit_outside_its_range_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidLimits, match=name):
        Limits.of(**{name: value})


def test_a_timeout_may_be_written_as_text() -> None:
    assert Limits.of(wall_s="1.5").wall_s == 1.5


def test_a_ceiling_takes_the_smaller_of_each() -> None:
    wide = Limits(memory_bytes="2g", wall_s=10, idle_s=None)  # type: ignore[arg-type]
    narrow = Limits(memory_bytes="1g", wall_s=100, idle_s=5)  # type: ignore[arg-type]
    both = wide.tightened(narrow)
    assert both.memory_bytes == 1024 * MIB
    assert both.wall_s == 10
    assert both.idle_s == 5
    assert both == narrow.tightened(wide)


@given(st.text(max_size=30))
def test_reading_a_size_gives_a_whole_number_or_a_value_error(text: str) -> None:
    try:
        size = parse_size(text)
    except ValueError:
        return
    assert isinstance(size, int)
    assert size >= 0
