"""States of sets are read once, and every decision about one is seen all the same."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sandboxed_tools.workspace import set_states
from sandboxed_tools.workspace.change import SetState
from sandboxed_tools.workspace.set_states import SetStates

IDS = ("00000001", "00000002", "00000003")
LONG_AGO_NS = 1_000_000_000_000_000_000


def write(folder: Path, set_id: str, *, summary: str = "old", mtime_ns: int = LONG_AGO_NS) -> None:
    """Put a state in the place of another one, as a decision of any process does."""
    draft = folder / set_id / ".draft"
    state = SetState(
        id=set_id,
        workspace=b"/w",
        session=None,
        status="held",
        created_s=float(set_id),
        decided_s=None,
        settled_ns=0,
        ended_by_itself=True,
        layers=(),
        replaces=(),
        waits_for=None,
        summary=summary,
    )
    draft.write_text(json.dumps(state.to_json()))
    os.utime(draft, ns=(mtime_ns, mtime_ns))
    draft.rename(folder / set_id / "state.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for set_id in IDS:
        (tmp_path / set_id).mkdir()
        write(tmp_path, set_id)
    return tmp_path


@pytest.fixture
def states(folder: Path) -> SetStates:
    return SetStates(folder)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was read from the disk, since a test looked last."""
    seen: list[bytes] = []
    real = set_states.read_object

    def counting(data: bytes) -> dict[str, object]:
        seen.append(data)
        return real(data)

    monkeypatch.setattr(set_states, "read_object", counting)
    return seen


def test_a_state_that_nobody_changed_is_read_once(states: SetStates, read: list[bytes]) -> None:
    assert [state.id for state in states.all()] == list(IDS)
    assert len(read) == 3
    assert states.all() == states.all()
    assert states.one(IDS[1]).status == "held"
    assert len(read) == 3


def test_a_decision_is_seen_at_once_and_costs_the_others_nothing(
    states: SetStates, folder: Path, read: list[bytes]
) -> None:
    states.all()
    # Same size, and the time set to the same one.
    write(folder, IDS[1], summary="new")
    read.clear()
    assert [state.summary for state in states.all()] == ["old", "new", "old"]
    assert len(read) == 1


def test_a_state_that_was_edited_in_its_place_is_seen(states: SetStates, folder: Path) -> None:
    states.all()
    place = folder / IDS[0] / "state.json"
    place.write_text(place.read_text().replace("old", "new"))
    assert states.all()[0].summary == "new"


def test_what_was_written_just_now_is_read_again(
    states: SetStates, folder: Path, read: list[bytes]
) -> None:
    far_ahead_ns = 2**62
    write(folder, IDS[2], mtime_ns=far_ahead_ns)
    states.all()
    read.clear()
    states.all()
    assert len(read) == 1


def test_sets_come_and_go(states: SetStates, folder: Path) -> None:
    states.all()
    (folder / IDS[0]).rename(folder / ".removed")
    (folder / "00000009").mkdir()
    assert [state.id for state in states.all()] == list(IDS[1:])
    with pytest.raises(FileNotFoundError):
        states.one(IDS[0])
    write(folder, "00000009")
    assert [state.id for state in states.all()] == [*IDS[1:], "00000009"]


def test_the_state_of_one_set_is_not_that_of_another(states: SetStates, folder: Path) -> None:
    (folder / IDS[0] / "state.json").rename(folder / IDS[1] / "state.json")
    assert [state.id for state in states.all()] == [IDS[2]]
