"""How many containers stand ready, as time and demand go."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, cast

import pytest

from sandboxed_tools.sandbox.docker.container import Container
from sandboxed_tools.sandbox.docker.create import Mould
from sandboxed_tools.sandbox.docker.shelf import BASE_TARGET, MAX_AGE_S, MAX_TARGET, Shelf


@dataclass(eq=False)
class Waiting:
    """Stands for a container that waits."""

    made_at: float
    is_waiting: bool = True


def shelf_with(*containers: Waiting, used_s_ago: float = 0.0, **changes: Any) -> Shelf:
    shelf = Shelf(cast(Mould, None), active_at=0.0, **changes)
    shelf.used_at = time.monotonic() - used_s_ago
    shelf.ready.extend(cast(list[Container], containers))
    return shelf


def test_nothing_is_made_ahead_before_the_first_call_has_ended() -> None:
    shelf = Shelf(cast(Mould, None))
    shelf.note_use(time.monotonic())
    assert shelf.active_at == math.inf
    assert shelf.deficit(time.monotonic()) == 0


@pytest.mark.parametrize(
    ("used_s_ago", "target"), [(1, BASE_TARGET), (59, BASE_TARGET), (61, 1), (299, 1), (301, 0)]
)
def test_target_falls_to_none_without_calls(used_s_ago: float, target: int) -> None:
    assert shelf_with(used_s_ago=used_s_ago).target(time.monotonic()) == target


def test_target_follows_a_burst_up_to_its_most() -> None:
    shelf, now = shelf_with(), time.monotonic()
    for expected in (2, 3, 4, 5, 6, 7, 8, 8, 8):
        shelf.note_use(now)
        assert shelf.target(now) == min(expected, MAX_TARGET)
    assert shelf.target(now + 3) == BASE_TARGET


def test_what_was_asked_for_stays_whatever_the_demand() -> None:
    shelf = shelf_with(used_s_ago=10_000, pinned=5)
    assert shelf.target(time.monotonic()) == 5
    assert not shelf.is_over(time.monotonic())


def test_containers_that_are_being_made_count() -> None:
    shelf = shelf_with(Waiting(time.monotonic()), filling=1)
    assert shelf.deficit(time.monotonic()) == BASE_TARGET - 2


def test_failure_is_not_tried_again_at_once() -> None:
    shelf, now = shelf_with(), time.monotonic()
    shelf.retry_at = now + 5
    assert (shelf.deficit(now), shelf.deficit(now + 6)) == (0, BASE_TARGET)


def test_dead_and_old_containers_go_and_the_old_ones_a_few_at_a_time() -> None:
    now = time.monotonic()
    old = [Waiting(now - MAX_AGE_S - 1) for _ in range(4)]
    dead, fresh = Waiting(now, is_waiting=False), Waiting(now)
    shelf = shelf_with(*old, dead, fresh, pinned=6)
    gone: list[object] = [*shelf.surplus(now)]
    left: list[object] = [*shelf.ready]
    assert gone == [*old[:2], dead]
    assert left == [*old[2:], fresh]


def test_shelf_that_nobody_uses_empties_and_ends() -> None:
    now = time.monotonic()
    shelf = shelf_with(Waiting(now), Waiting(now), used_s_ago=400)
    assert len(shelf.surplus(now)) == 2
    assert shelf.is_over(now)


def test_what_serves_the_next_calls_lets_filling_wait() -> None:
    now = time.monotonic()
    assert shelf_with(Waiting(now), Waiting(now), pinned=5).is_stocked()
    assert not shelf_with(Waiting(now), pinned=5).is_stocked()
    assert not shelf_with(Waiting(now), Waiting(now), waiting=1).is_stocked()
