"""What overlays and we ourselves remember things by, planted by a command on purpose."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sandboxed_tools.workspace import renames
from sandboxed_tools.workspace.apply import apply_set, discard_set, undo_set
from sandboxed_tools.workspace.change_store import ChangeStore

from .conftest import Call, actions, picture

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts overlays")


@pytest.fixture(params=["overlay", "copy"])
def choice(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("mknod ghost c 0 0; mknod src/ghost c 0 0; ln src/ghost docs/ghost", {}),
        ("mkdir new; mknod new/x c 0 0; echo z > new/z", {"new": "added", "new/z": "added"}),
        ("rm keep.txt; mknod keep.txt c 0 0", {"keep.txt": "deleted"}),
        ("rm -r docs; mknod docs c 0 0", {"docs": "deleted"}),
        ("mknod g c 0 0; mv g src/main.py", {"src/main.py": "deleted"}),
        (
            "rm keep.txt; mkdir keep.txt; mknod keep.txt/x c 0 0; echo y > keep.txt/y",
            {"keep.txt": "type", "keep.txt/y": "added"},
        ),
    ],
)
def test_a_whiteout_made_by_hand_in_a_copy_is_what_it_looks_like(
    script: str, expected: dict[str, str], call: Call, workspace: Path, store: ChangeStore
) -> None:
    # A copy has no overlay that refuses them, and here no seccomp filter does.
    before = picture(workspace)
    called = call(script, view="copy")
    assert called.output == ""
    if not expected:
        assert called.summary.decision == "none"
        return
    assert actions(store.get(called.id)) == expected
    assert apply_set(store, called.id).done
    for path in workspace.rglob("*"):
        assert not path.is_char_device()
    assert undo_set(store, called.id).done
    assert picture(workspace) == before


def test_a_whiteout_made_by_hand_over_a_held_set_goes_with_it(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = picture(workspace)
    first = call("mkdir n; echo a > n/a; echo b > n/b", session="s", view="copy").id
    script = "rm -r n; mkdir n; mknod n/a c 0 0; mknod n/ghost c 0 0; echo c > n/c"
    second = call(script, session="s", view="copy").id
    assert actions(store.get(second)) == {"n/a": "deleted", "n/b": "deleted", "n/c": "added"}
    assert call("ls n", session="s").output == "c\n"
    for change_set_id in (first, second):
        assert apply_set(store, change_set_id).done
    assert os.listdir(workspace / "n") == ["c"]
    for change_set_id in (second, first):
        assert undo_set(store, change_set_id).done
    assert picture(workspace) == before


def test_a_folder_that_calls_itself_opaque_hides_nothing_from_the_next_call(
    choice: str, call: Call, store: ChangeStore
) -> None:
    script = (
        "python3 -c \"import os; os.setxattr('docs', 'user.overlay.opaque', b'y')\"; echo > docs/c"
    )
    called = call(script, session="s", view=choice)
    assert actions(store.get(called.id)) == {"docs/c": "added"}
    for view in ("overlay", "copy"):
        assert call("ls docs", session="s", view=view).output == "a.md\nb.md\nc\n"


@pytest.mark.parametrize("only", ["docs/new", "docs/a.md"])
def test_a_folder_made_anew_can_be_split(
    only: str, choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = picture(workspace)
    called = call("rm -r docs; mkdir docs; echo n > docs/new", view=choice)
    part = apply_set(store, called.id, only=(only,))
    assert part.done, part.problems
    assert part.rest is not None
    assert sorted(os.listdir(workspace / "docs")) == (
        ["a.md", "b.md", "new"] if only == "docs/new" else ["b.md"]
    )
    rest = apply_set(store, part.rest)
    assert rest.done, rest.problems
    assert os.listdir(workspace / "docs") == ["new"]
    for change_set_id in (part.rest, part.change_set.id):
        assert undo_set(store, change_set_id).done
    assert picture(workspace) == before


@pytest.mark.parametrize("only", ["docs/new", "docs/a.md"])
def test_the_rest_of_a_folder_made_anew_is_what_the_session_sees(
    only: str, choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    called = call("rm -r docs; mkdir docs; echo n > docs/new", view=choice, session="s")
    assert apply_set(store, called.id, only=(only,)).done
    for view in ("overlay", "copy"):
        assert call("ls docs", session="s", view=view).output == "new\n"


def test_what_is_held_is_not_edited_through_a_hard_link_that_was_applied(
    choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    called = call("echo shown > a; mkdir n; ln a n/b; ln a c", view=choice)
    part = apply_set(store, called.id, only=("a",))
    assert part.rest is not None
    with (workspace / "a").open("a") as file:
        file.write("never shown\n")
    before = picture(workspace)
    decision = apply_set(store, part.rest, force=True, allow_protected=True)
    assert not decision.done
    assert {problem.kind for problem in decision.problems} == {"refused"}
    assert picture(workspace) == before
    assert discard_set(store, part.rest).done


def refuse(*_: object) -> None:
    raise OSError(errno.EINVAL, "as NFS answers")


def put_aside(store: ChangeStore, change_set_id: str) -> list[str]:
    """Apply a set; the names of ours that its upper folder has on the way."""
    seen: set[str] = set()

    def look() -> None:
        seen.update(path.name for path in store.upper(change_set_id).glob(".aside-*"))

    assert apply_set(store, change_set_id, on_step=look).done
    assert undo_set(store, change_set_id).done
    return sorted(seen)


def test_the_name_under_which_an_entry_is_put_aside_cannot_be_known_to_a_command(
    call: Call, workspace: Path, store: ChangeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renames, "_rename", refuse)
    before = picture(workspace)
    script = "echo more >> secret.txt"
    (first,) = put_aside(store, call(script).id)
    (second,) = put_aside(store, call(script).id)
    assert first != second

    planted = call(f"echo planted > {first}; {script}").id
    assert first in put_aside(store, planted)
    assert picture(workspace) == before
