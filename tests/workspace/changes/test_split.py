"""A set is split by hand: what is chosen is applied, and the rest stays held."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from sandboxed_tools.errors import InvalidInput
from sandboxed_tools.workspace.apply import apply_set, undo_set
from sandboxed_tools.workspace.change_selection import selection
from sandboxed_tools.workspace.change_store import ChangeStore

from .conftest import Call, actions, picture
from .test_change_set import EXPECTED, SCRIPT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts overlays")


def test_the_chosen_part_is_applied_and_the_rest_is_held(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = picture(workspace)
    called = call(SCRIPT)
    decision = apply_set(store, called.id, only=("src/more", "*.txt"))
    assert decision.done
    assert decision.rest is not None
    assert set(actions(decision.change_set)) == {
        *("src/more", "src/more/below", "src/more/below/file", "secret.txt", "keep.txt"),
    }
    rest = store.get(decision.rest)
    assert set(actions(rest)) == set(EXPECTED) - set(actions(decision.change_set))
    assert (workspace / "src" / "more" / "below" / "file").read_text() == "x\n"
    assert not (workspace / "src" / "new.txt").exists()
    assert {state.id for state in store.sets()} == {decision.change_set.id, rest.id}

    assert apply_set(store, rest.id).done
    whole = picture(workspace, times=False)
    assert undo_set(store, rest.id).done
    assert undo_set(store, decision.change_set.id).done
    assert picture(workspace) == before
    assert apply_set(store, call(SCRIPT).id).done
    assert picture(workspace, times=False) == whole


def test_what_is_refused_can_be_left_behind(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    called = call("mkdir -p d/e; mkfifo d/e/fifo; echo x > d/e/file; echo y > .envrc")
    assert not apply_set(store, called.id).done
    decision = apply_set(store, called.id, excluding=("**/fifo", ".envrc"))
    assert decision.done, decision.problems
    assert sorted(os.listdir(workspace / "d" / "e")) == ["file"]
    assert not (workspace / ".envrc").exists()
    assert decision.rest is not None
    assert {"d/e/fifo", ".envrc"} <= set(actions(store.get(decision.rest)))


def test_a_split_keeps_the_modes_of_new_folders(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    called = call("mkdir -p ro/in; echo x > ro/in/f; echo y > other; chmod 555 ro/in ro")
    decision = apply_set(store, called.id, only=("ro",))
    assert decision.done
    assert [stat.S_IMODE((workspace / name).stat().st_mode) for name in ("ro", "ro/in")] == [
        0o555,
        0o555,
    ]


def test_a_chosen_part_with_problems_leaves_the_set_whole(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = picture(workspace)
    called = call("echo y > .envrc; echo x > file")
    decision = apply_set(store, called.id, only=(".envrc",))
    assert [problem.kind for problem in decision.problems] == ["protected"]
    assert [state.id for state in store.sets()] == [called.id]
    assert picture(workspace) == before


def test_choosing_nothing_applies_nothing(call: Call, store: ChangeStore) -> None:
    called = call(SCRIPT)
    assert not apply_set(store, called.id, only=("no/such/*",)).done
    assert store.get(called.id).status == "held"


def test_choosing_everything_keeps_the_set(call: Call, store: ChangeStore) -> None:
    called = call(SCRIPT)
    decision = apply_set(store, called.id, only=("**",))
    assert decision.done
    assert decision.change_set.id == called.id


@pytest.mark.parametrize(
    ("only", "excluding", "path", "chosen"),
    [
        ((), (), b"a/b", True),
        (("a",), (), b"a/b/c", True),
        (("a/*",), (), b"a/b/c", True),
        (("*.py",), (), b"a/b.py", False),
        (("**/*.py",), (), b"a/b.py", True),
        (("**/*.py",), (), b"b.py", True),
        (("{a,b}",), (), b"b", True),
        (("a/",), (), b"a", True),
        (("a",), ("a/b",), b"a/b/c", False),
        ((), ("*",), b"a", False),
        (("*",), (), b".hidden", True),
        (("\udcff",), (), b"\xff", True),
        (("app/[slug]/page",), (), b"app/[slug]/page", True),
        ((), ("app/[slug]",), b"app/[slug]/page", False),
        ((), ("a{b", "a\\b", "*(x"), b"a\\b", False),
        ((), ("./a/b",), b"a/b", False),
        ((), (".",), b"a/b", False),
    ],
)
def test_patterns_choose_paths(
    only: tuple[str, ...], excluding: tuple[str, ...], path: bytes, chosen: bool
) -> None:
    assert selection([path], only=only, excluding=excluding)(path) is chosen


@pytest.mark.parametrize(
    ("only", "excluding", "code"),
    [
        ((), ("src/evil",), "missing"),
        ((), ("/workspace/a",), "missing"),
        (("a",), ("a\x1bc",), "missing"),
        ((), ("{1..2000}",), "too_many"),
        (("{a,b}" * 11,), (), "too_many"),
    ],
)
def test_a_pattern_that_can_only_be_a_mistake_applies_nothing(
    only: tuple[str, ...],
    excluding: tuple[str, ...],
    code: str,
    call: Call,
    workspace: Path,
    store: ChangeStore,
) -> None:
    called = call("echo x > a; mkdir evil; echo x > evil/src")
    with pytest.raises(InvalidInput) as refused:
        apply_set(store, called.id, only=only, excluding=excluding)
    assert refused.value.fields[0].code == code
    assert "\x1b" not in str(refused.value)
    assert store.get(called.id).status == "held"
    assert not (workspace / "a").exists()


def test_a_pattern_may_choose_nothing(call: Call, workspace: Path, store: ChangeStore) -> None:
    assert apply_set(store, call("echo x > a").id, excluding=("**/*.log", "[b]")).done
    assert (workspace / "a").read_text() == "x\n"
