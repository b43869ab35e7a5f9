"""A set is applied whole or not at all, undone exactly, and refused for what is dangerous."""

from __future__ import annotations

import json
import os
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandboxed_tools.errors import ChangeSetNotFound, InvalidWorkspace
from sandboxed_tools.workspace.apply import apply_set, discard_set, undo_set
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.check import Problem

from .conftest import Call, picture
from .test_change_set import SCRIPT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts overlays")


@pytest.fixture(params=["overlay", "copy"])
def choice(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def kinds(problems: tuple[Problem, ...]) -> set[tuple[bytes, str]]:
    return {(problem.path, problem.kind) for problem in problems}


@pytest.mark.parametrize("owner", [0, 1234])
def test_what_is_applied_is_what_plain_bash_would_have_done(
    owner: int, choice: str, call: Call, workspace: Path, tmp_path: Path, store: ChangeStore
) -> None:
    for path in (workspace, *workspace.rglob("*")):
        os.chown(path, owner, owner, follow_symlinks=False)
    oracle = tmp_path / "oracle"
    assert os.system(f"cp -a '{workspace}' '{oracle}'") == 0
    assert os.system(f"cd '{oracle}' && umask 022 && bash -c '{SCRIPT}'") == 0
    for path in (oracle, *oracle.rglob("*")):
        os.chown(path, owner, owner, follow_symlinks=False)
    called = call(SCRIPT, view=choice, changes="apply")
    assert called.summary.decision == "applied"
    assert picture(workspace, times=False) == picture(oracle, times=False)
    assert store.get(called.id).status == "applied"


def test_undo_restores_exactly_and_the_set_can_be_applied_again(
    choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = picture(workspace)
    called = call(SCRIPT, view=choice)
    assert apply_set(store, called.id).done
    after = picture(workspace)
    assert after != before
    assert undo_set(store, called.id).done
    assert picture(workspace) == before
    assert store.get(called.id).status == "undone"
    assert apply_set(store, called.id).done
    assert undo_set(store, called.id).done
    assert picture(workspace) == before


def test_untouched_files_keep_inode_and_times(
    choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    def facts(path: Path) -> tuple[int, ...]:
        info = path.lstat()
        return (info.st_ino, info.st_mtime_ns, info.st_ctime_ns, info.st_mode, info.st_nlink)

    before = {path: facts(path) for path in workspace.rglob("*") if path.name != "src"}
    assert apply_set(store, call("echo x > src/new", view=choice).id).done
    assert {path: facts(path) for path in before} == before


def test_applying_twice_is_applying_once(call: Call, workspace: Path, store: ChangeStore) -> None:
    called = call(SCRIPT)
    assert apply_set(store, called.id).done
    after = picture(workspace)
    assert apply_set(store, called.id).done
    assert picture(workspace) == after
    assert undo_set(store, called.id).done
    assert undo_set(store, called.id).done


def test_overlay_attributes_do_not_reach_the_workspace(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    script = "rm -r docs; mkdir docs; echo x > docs/x; sed -i s/two/2/ secret.txt; mkdir a"
    assert apply_set(store, call(script).id).done
    for path in (workspace, *workspace.rglob("*")):
        assert os.listxattr(path, follow_symlinks=False) == []


EDITS = [
    ("echo host >> secret.txt", "echo call >> secret.txt"),
    ("chmod 644 secret.txt", "echo call >> secret.txt"),
    ("rm secret.txt; mkdir secret.txt", "echo call >> secret.txt"),
    ("rm secret.txt; ln -s keep.txt secret.txt", "echo call >> secret.txt"),
    ("echo host >> secret.txt", "rm secret.txt"),
    ("echo host >> src/deep/data.bin", "rm -r src"),
    ("echo host > src/deep/added", "rm -r src"),
    ("echo host > new", "echo call > new"),
    ("ln -s /etc/passwd new", "echo call > new"),
    ("mv src old; ln -s /etc src", "echo call > src/new"),
    ("echo host >> secret.txt; chmod 600 secret.txt", "chmod 644 secret.txt"),
]
GONE = [
    ("rm secret.txt", "echo call >> secret.txt"),
    ("rm -r docs", "echo call > docs/new"),
    ("echo host > new", "mkdir new"),
]


@pytest.mark.parametrize(("edit", "script"), EDITS)
def test_a_host_change_during_the_call_is_a_conflict(
    edit: str, script: str, choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    called = call(script, view=choice, meanwhile=lambda: _edit(edit, workspace))
    before = picture(workspace)
    decision = apply_set(store, called.id)
    assert not decision.done
    assert {problem.kind for problem in decision.problems} == {"conflict"}
    assert picture(workspace) == before


@pytest.mark.parametrize(("edit", "script"), EDITS + GONE)
def test_a_host_change_after_the_call_is_a_conflict(
    edit: str, script: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    called = call(script)
    _edit(edit, workspace)
    before = picture(workspace)
    decision = apply_set(store, called.id)
    assert not decision.done
    assert {problem.kind for problem in decision.problems} == {"conflict"}
    assert picture(workspace) == before
    assert store.get(called.id).status == "held"


def _edit(edit: str, workspace: Path) -> None:
    assert os.system(f"cd '{workspace}' && {edit}") == 0


def test_force_overrides_a_conflict_and_undo_brings_the_host_change_back(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    called = call("echo call >> secret.txt; echo call > new; rm keep.txt; rm -r docs")
    _edit("echo host >> secret.txt; mkdir new; echo x > new/x; rm keep.txt", workspace)
    before = picture(workspace)
    assert not apply_set(store, called.id).done
    assert apply_set(store, called.id, force=True).done
    assert (workspace / "secret.txt").read_text().endswith("three\ncall\n")
    assert (workspace / "new").read_text() == "call\n"
    assert undo_set(store, called.id).done
    assert picture(workspace) == before


ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, bits, who)
    for tag, bits, who in ((1, 7, 0), (2, 7, 4711), (4, 4, 0), (16, 7, 0), (32, 4, 0))
)
"""An access list that gives user 4711 everything (acl(5), as the kernel stores it)."""


def test_access_lists_and_attributes_are_those_of_the_workspace(
    choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    os.setxattr(workspace / "keep.txt", "user.mine", b"host")
    os.setxattr(workspace / "docs", "system.posix_acl_access", ACL)
    plant = (
        "import os\n"
        "for name in ('new', 'secret.txt', 'src', 'made'):\n"
        "    os.setxattr(name, 'user.planted', b'x')\n"
        f"    os.setxattr(name, 'system.posix_acl_access', {ACL!r})\n"
    )
    script = (
        f"echo x > new; mkdir made; echo y >> secret.txt; echo z >> keep.txt; echo w > src/w;"
        f' echo d > docs/d; python3 -c "{plant}"'
    )
    called = call(script, view=choice)
    assert called.output == ""
    assert apply_set(store, called.id, allow_protected=True).done
    for name in ("new", "secret.txt", "src", "made", "src/w", "docs/d"):
        assert os.listxattr(workspace / name) == []
    assert os.getxattr(workspace / "keep.txt", "user.mine") == b"host"
    assert os.listxattr(workspace / "docs") == ["system.posix_acl_access"]


@pytest.mark.parametrize(
    "script",
    [
        "mkfifo fifo",
        "mkdir d; mkfifo d/fifo; echo x > d/y",
        "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('s')\"",
    ],
)
def test_fifos_and_sockets_are_refused_with_the_whole_set_whatever_is_said(
    script: str, choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = picture(workspace)
    called = call(f"{script}; echo x > harmless", view=choice, changes="apply")
    assert called.summary.decision == "held"
    decision = apply_set(store, called.id, force=True, allow_protected=True)
    assert {problem.kind for problem in decision.problems} == {"refused"}
    assert picture(workspace) == before


def test_a_link_planted_to_the_host_is_protected_and_never_written_through(
    choice: str, call: Call, workspace: Path, tmp_path: Path, store: ChangeStore
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("host\n")
    planted = call(f"rm keep.txt; ln -s {victim} keep.txt", view=choice, changes="apply")
    assert planted.summary.decision == "held"
    assert kinds(apply_set(store, planted.id).problems) == {(b"keep.txt", "protected")}
    assert apply_set(store, planted.id, allow_protected=True).done
    assert (workspace / "keep.txt").is_symlink()
    written = call("rm keep.txt; echo call > keep.txt", view=choice)
    assert apply_set(store, written.id).done
    assert victim.read_text() == "host\n"
    assert not (workspace / "keep.txt").is_symlink()


def test_later_edits_stop_an_undo_and_are_named(
    choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    called = call(SCRIPT, view=choice, changes="apply")
    _edit("echo more >> secret.txt; echo more > src/more/mine; rm src/new.txt", workspace)
    after = picture(workspace)
    decision = undo_set(store, called.id)
    assert {problem.path for problem in decision.problems} == {
        *(b"secret.txt", b"src/more", b"src/new.txt")
    }
    assert picture(workspace) == after
    assert store.get(called.id).status == "applied"


def test_discarding_forgets_a_set(call: Call, workspace: Path, store: ChangeStore) -> None:
    before = picture(workspace)
    called = call(SCRIPT)
    assert discard_set(store, called.id).done
    assert picture(workspace) == before
    assert list(store.folder.iterdir()) == []
    with pytest.raises(ChangeSetNotFound):
        apply_set(store, called.id)


@pytest.mark.parametrize("name", ["", "..", "../views", "a/b", "0123456", "ABCDEF01", "\0"])
def test_an_id_is_no_path(name: str, store: ChangeStore) -> None:
    with pytest.raises(ChangeSetNotFound):
        apply_set(store, name)


def test_a_workspace_that_was_replaced_is_not_written_to(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    called = call("echo x > new")
    workspace.rename(workspace.with_name("moved"))
    workspace.mkdir()
    with pytest.raises(InvalidWorkspace):
        apply_set(store, called.id)
    assert list(workspace.iterdir()) == []


def test_what_is_kept_is_checked_again_before_it_is_used(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = picture(workspace)
    called = call("echo x > new; echo y > other")
    upper = store.upper(called.id)
    (upper / "new").unlink()
    (upper / "new").symlink_to("/etc/passwd")
    (upper / "other").chmod(0o4755)
    decision = apply_set(store, called.id, force=True, allow_protected=True)
    assert kinds(decision.problems) == {(b"new", "refused"), (b"other", "refused")}
    assert picture(workspace) == before


def test_content_that_a_power_cut_took_is_noticed(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = picture(workspace)
    called = call("echo x > new; echo y > whole")
    facts = store.folder / called.id / "set.json"
    data = json.loads(facts.read_text())
    facts.write_text(json.dumps({**data, "boot": "0" * 16}))
    kept = store.upper(called.id) / "new"
    info = kept.stat()
    os.truncate(kept, 0)
    os.utime(kept, ns=(info.st_atime_ns, info.st_mtime_ns))
    decision = apply_set(store, called.id, force=True, allow_protected=True)
    assert kinds(decision.problems) == {(b"new", "refused")}
    assert picture(workspace) == before
    kept.write_text("x\n")
    os.utime(kept, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert apply_set(store, called.id).done


def test_a_full_disk_takes_everything_back(call: Call, workspace: Path, store: ChangeStore) -> None:
    called = call(SCRIPT)
    before = picture(workspace)
    taken = iter(range(100))

    def fail_at_the_fifth() -> None:
        if next(taken) == 5:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        apply_set(store, called.id, on_step=fail_at_the_fifth)
    assert picture(workspace) == before
    assert store.get(called.id).status == "held"
    assert apply_set(store, called.id).done


@pytest.mark.parametrize("moment", range(5))
def test_a_folder_swapped_for_a_link_in_the_middle_is_not_followed(
    moment: int, call: Call, workspace: Path, tmp_path: Path, store: ChangeStore
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    called = call("echo x > src/new; echo y > docs/new; rm docs/a.md")
    taken = iter(range(100))

    def swap() -> None:
        if next(taken) == moment:
            (workspace / "src").rename(workspace / "real")
            (workspace / "src").symlink_to(outside)

    decision = apply_set(store, called.id, on_step=swap)
    assert list(outside.iterdir()) == []
    # Once the folder is open, what was moved away is what is written to, and it is still inside.
    assert decision.done == (workspace / "real" / "new").exists() == (moment > 2)
    assert (workspace / "docs" / "new").exists() == decision.done
    assert (workspace / "docs" / "a.md").exists() != decision.done


def test_another_process_applies_what_this_one_held(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    code = (
        "import sys; from sandboxed_tools.workspace.apply import apply_set;"
        "from sandboxed_tools.workspace.change_store import ChangeStore;"
        "assert apply_set(ChangeStore(), sys.argv[1]).done"
    )
    called = call("echo x > new")
    subprocess.run([sys.executable, "-c", code, called.id], check=True, timeout=60)
    assert (workspace / "new").read_text() == "x\n"


@pytest.fixture(autouse=True)
def _no_set_id_file_is_left(workspace: Path) -> Iterator[None]:
    yield
    for path in workspace.rglob("*") if workspace.exists() else ():
        if not path.is_symlink():
            assert not path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)


@pytest.mark.parametrize("choice", ["overlay", "copy"])
def test_a_changed_mode_of_a_folder_hides_no_conflict_in_it(
    choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    def edit() -> None:
        (workspace / "src" / "main.py").write_text("the user's\n")

    script = "chmod 700 src; echo mine > src/main.py"
    called = call(script, meanwhile=edit, view=choice, changes="apply")
    assert called.summary.decision == "held"
    assert (workspace / "src" / "main.py").read_text() == "the user's\n"
    problems = apply_set(store, called.id).problems
    assert [(item.path, item.kind) for item in problems] == [(b"src/main.py", "conflict")]


@pytest.mark.parametrize("name", ["d", "config"])
def test_a_deep_tree_of_any_names_is_decided_about_without_stalling(
    name: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    # Work that grows with the cube of the depth would take hours.
    # Not in bash, which itself keeps the whole path of where it is.
    script = (
        f'python3 -c \'import os\nfor _ in range(1500): os.mkdir("{name}"); os.chdir("{name}")\n'
        'for name in ("HEAD", "objects"): open(name, "x").close()\''
    )
    called = call(script, changes="apply")
    assert (called.output, called.summary.decision) == ("", "applied")
    assert undo_set(store, called.id).done
    assert apply_set(store, called.id, excluding=("nothing*",)).done
    assert undo_set(store, called.id).done
    store.remove(called.id)  # deeper than the clean-up of the test's own folder can go
