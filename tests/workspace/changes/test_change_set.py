"""A change set says what a call changed: no more, no less, and at a cost of what it changed."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from sandboxed_tools.workspace.change import ChangeSet
from sandboxed_tools.workspace.change_store import ChangeStore

from .conftest import Call, actions, picture

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts overlays")

SCRIPT = """
set -e
sed -i s/two/TWO/ secret.txt
echo new > src/new.txt
mkdir -p src/more/below; echo x > src/more/below/file
rm docs/a.md
chmod 700 src/deep
chmod 640 keep.txt
ln -sfn src/deep link
rm run.sh; mkdir run.sh; echo in > run.sh/inside
"""
EXPECTED = {
    "secret.txt": "modified",
    "src/new.txt": "added",
    "src/more": "added",
    "src/more/below": "added",
    "src/more/below/file": "added",
    "docs/a.md": "deleted",
    "src/deep": "mode",
    "keep.txt": "mode",
    "link": "symlink",
    "run.sh": "type",
    "run.sh/inside": "added",
}


@pytest.fixture(params=["overlay", "copy"])
def choice(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_names_every_kind_of_change_once(choice: str, call: Call, store: ChangeStore) -> None:
    called = call(SCRIPT, view=choice)
    assert called.output == ""
    change_set = store.get(called.id)
    assert actions(change_set) == EXPECTED
    assert (called.summary.decision, called.summary.added, called.summary.deleted) == ("held", 5, 1)
    assert change_set.summary() == "5 added, 2 modified, 1 deleted, 1 replaced, 2 with another mode"


def test_has_both_sides_of_a_change(choice: str, call: Call, store: ChangeStore) -> None:
    changes = {change.path: change for change in store.get(call(SCRIPT, view=choice).id).changes}
    edited = changes[b"secret.txt"]
    assert edited.before is not None
    assert edited.after is not None
    assert (edited.before.size, edited.before.mode) == (14, 0o600)
    assert edited.before.digest != edited.after.digest
    link = changes[b"link"]
    assert link.before is not None
    assert link.after is not None
    assert (link.before.target, link.after.target) == (b"src/main.py", b"src/deep")
    assert changes[b"docs/a.md"].after is None
    assert changes[b"src/new.txt"].before is None


def test_the_host_is_untouched_while_a_set_is_held(
    choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = picture(workspace)
    call(SCRIPT, view=choice)
    assert picture(workspace) == before


@pytest.mark.parametrize(
    "script",
    [
        "cat secret.txt > /dev/null; ls -R > /dev/null",
        "touch secret.txt src",
        "sed -i s/two/TWO/ secret.txt; sed -i s/TWO/two/ secret.txt; chmod 600 secret.txt",
        "echo x > tmp; rm tmp; mkdir a; rmdir a",
        "mv docs/a.md x; mv x docs/a.md",
        "chmod 700 src; chmod 755 src",
    ],
)
def test_what_ends_as_it_began_is_no_change(script: str, choice: str, call: Call) -> None:
    called = call(script, view=choice)
    assert (called.summary.decision, called.summary.id) == ("none", None)


def test_a_folder_that_was_made_anew_hides_only_what_it_lacks(
    choice: str, call: Call, store: ChangeStore
) -> None:
    script = (
        "cp docs/b.md /tmp/b.$$; rm -r docs; mkdir docs; cat /tmp/b.$$ > docs/b.md; rm /tmp/b.$$"
    )
    found = actions(store.get(call(script, view=choice).id))
    assert found == {"docs/a.md": "deleted"}


def test_a_deleted_folder_is_one_change_that_counts_what_it_held(
    choice: str, call: Call, store: ChangeStore
) -> None:
    (change,) = store.get(call("rm -r src", view=choice).id).changes
    assert (change.path, change.action) == (b"src", "deleted")
    assert change.before is not None
    assert (change.before.kind, change.before.entries) == ("folder", 4)


def test_a_moved_file_is_shown_as_moved(choice: str, call: Call, store: ChangeStore) -> None:
    change_set = store.get(call("mv secret.txt src/moved.txt; echo > src/empty", view=choice).id)
    moves = {change.path: change.renamed for change in change_set.changes}
    assert moves == {
        b"secret.txt": b"src/moved.txt",
        b"src/moved.txt": b"secret.txt",
        b"src/empty": None,
    }
    assert change_set.summary() == "1 renamed, 1 added"


def test_each_moved_file_is_one_of_those_with_its_content(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    for number in range(300):
        (workspace / f"old{number:03}").write_text(f"{number // 3:03}\n")
    called = call(
        "rm old*; for n in $(seq -f %03g 0 99); do echo $n > one$n; echo $n > two$n; done;"
        "for n in $(seq -f %03g 100 399); do echo $n > other$n; done"
    )
    change_set = store.get(called.id)
    moved = {change.path: change.renamed for change in change_set.changes if change.renamed}
    assert len(moved) == 400
    for path, other in moved.items():
        assert moved[other] == path
        new, old = (path, other) if path[:3] in (b"one", b"two") else (other, path)
        assert int(old[3:]) // 3 == int(new[3:])
    assert change_set.summary() == "200 renamed, 300 added, 100 deleted"


def test_set_id_bits_are_dropped_and_reported(choice: str, call: Call, store: ChangeStore) -> None:
    called = call("cp /bin/true tool; chmod 6755 tool; mkdir d; chmod 2777 d", view=choice)
    change_set = store.get(called.id)
    assert {change.path: change.dropped_mode for change in change_set.changes} == {
        b"tool": stat.S_ISUID | stat.S_ISGID,
        b"d": stat.S_ISGID,
    }
    upper = store.upper(called.id)
    assert stat.S_IMODE((upper / "tool").stat().st_mode) == 0o755
    assert "set-id" in " ".join(change_set.notes)


@pytest.mark.parametrize("owner", [0, 1234])
def test_what_is_kept_belongs_to_the_owner_of_the_workspace(
    owner: int, choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    for path in (workspace, *workspace.rglob("*")):
        os.chown(path, owner, owner, follow_symlinks=False)
    upper = store.upper(call(SCRIPT, view=choice).id)
    for path in (upper, *upper.rglob("*")):
        if not stat.S_ISCHR(path.lstat().st_mode):
            assert (path.lstat().st_uid, path.lstat().st_gid) == (owner, owner)


def test_hostile_names_are_kept_byte_by_byte(
    choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    script = (
        "echo > $'new\\nline'; echo > ./-rf; echo > $'bad\\xff\\xfe'; echo > $'esc\\x1b[31m';"
        "echo > \"$(printf 'a%.0s' $(seq 255))\"; echo > '\"quote'; mkdir ...; echo > .../x"
    )
    found = store.get(call(script, view=choice).id)
    assert {change.path for change in found.changes} == {
        *(b"new\nline", b"-rf", b"bad\xff\xfe", b"esc\x1b[31m", b"a" * 255, b'"quote'),
        *(b"...", b".../x"),
    }
    text = json.dumps(found.to_json())
    assert ChangeSet.from_json(json.loads(text)) == found


def test_three_hundred_levels_with_long_names(choice: str, call: Call, store: ChangeStore) -> None:
    name = "n" * 100
    script = f"for i in $(seq 300); do mkdir {name}; cd {name}; done; echo deep > file"
    change_set = store.get(call(script, view=choice).id)
    assert len(change_set.changes) == 301
    assert max(len(change.path) for change in change_set.changes) == 300 * 101 + 4
    store.remove(change_set.id)


def test_a_sparse_terabyte_is_read_by_its_data(
    choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    with (workspace / "sparse").open("wb") as file:
        file.truncate(2**40)
    called = call("printf x | dd of=sparse bs=1 seek=1000000000000 conv=notrunc 2>&-", view=choice)
    (change,) = store.get(called.id).changes
    assert change.action == "modified"
    assert change.before is not None
    assert change.after is not None
    assert change.before.size == change.after.size == 2**40


def test_a_special_file_is_a_change_and_never_opened(
    choice: str, call: Call, store: ChangeStore
) -> None:
    script = "mkfifo fifo; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\""
    found = store.get(call(script, view=choice).id)
    kinds = {change.path: change.after.kind for change in found.changes if change.after}
    assert kinds == {b"fifo": "fifo", b"sock": "socket"}


def test_a_call_that_was_stopped_is_held_instead_of_applied(
    choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = picture(workspace)
    called = call("echo x > new", view=choice, changes="apply", ended_by_itself=False)
    assert called.summary.decision == "held"
    assert not store.get(called.id).ended_by_itself
    assert picture(workspace) == before


def test_discarded_changes_leave_nothing(
    choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = picture(workspace)
    called = call(SCRIPT, view=choice, changes="discard")
    assert called.summary.decision == "discarded"
    assert store.sets() == ()
    assert picture(workspace) == before


def test_paths_that_would_fill_the_memory_are_refused_whole(
    choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = picture(workspace)
    script = (
        'python3 -c \'import os\nname = "n" * 250\n'
        "for _ in range(800): os.mkdir(name); os.chdir(name)'"
    )
    with pytest.raises(OSError, match="too long to be kept") as refused:
        call(script, view=choice)
    assert refused.value.errno == errno.ENAMETOOLONG
    assert store.sets() == ()
    assert picture(workspace) == before
