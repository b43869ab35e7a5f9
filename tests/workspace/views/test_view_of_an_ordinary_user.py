"""A client without root: its containers run as itself, over a plain overlay."""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandboxed_tools.errors import SandboxedToolsError
from sandboxed_tools.tool.mounts import ContainerUser, WorkspaceMount
from sandboxed_tools.workspace.apply import apply_set, undo_set
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.views import WorkspaceViews

from .conftest import PlainContainer, give_to, picture
from .test_overlay_view import WORK

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user"),
]

UID = 4242
ITSELF = ContainerUser(uid=UID, gid=UID)
SOCKET = "/var/run/docker.sock"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder of that user that it can reach."""
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, UID, UID)
    # pytest's own folders are closed to others. They stay open: other workers' tests use them, too.
    for folder in home.parents:
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    return home


def run_as_user(
    home: Path,
    container: PlainContainer,
    *,
    workspace: Path,
    script: str,
    user: ContainerUser = ITSELF,
    **choices: Any,
) -> dict[str, Any]:
    """Have a client that is that user run a script on a view; what it saw, or its error."""

    def work() -> dict[str, Any]:
        mount = WorkspaceMount(source=workspace, **choices)
        try:
            view = WorkspaceViews().open(mount, user)
        except SandboxedToolsError as error:
            return {"error": type(error).__name__}
        try:
            outcome = container.run(view, script, user=user)
            entries = view.usage().entries
            summary = view.settle(ended_by_itself=True)
            return {
                "kind": view.kind,
                "output": outcome.output,
                "entries": entries,
                "decision": summary.decision,
                "id": summary.id,
            }
        finally:
            view.close()

    return in_a_child_of_that_user(home, work)


def in_a_child_of_that_user(home: Path, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    # Forked rather than started: the interpreter may be where only this user can read it.
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(reader)
        answer: dict[str, Any] = {"error": "the client failed"}
        try:
            os.setgroups([os.stat(SOCKET).st_gid])
            os.setresgid(UID, UID, UID)
            os.setresuid(UID, UID, UID)
            os.environ["HOME"] = str(home)
            os.environ.pop("SANDBOXED_TOOLS_STATE_DIR", None)
            os.environ.pop("XDG_STATE_HOME", None)
            answer = work()
        finally:
            if sys.exc_info()[0] is not None:
                traceback.print_exc()
            with open(writer, "w", encoding="utf-8") as pipe:
                json.dump(answer, pipe)
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        answer = json.load(pipe)
    os.waitpid(child, 0)
    return answer


@pytest.mark.parametrize("choice", ["overlay", "copy"])
def test_works_on_private_files_and_the_host_stays_identical(
    choice: str, home: Path, workspace: Path, container: PlainContainer
) -> None:
    give_to(workspace, UID)
    workspace = workspace.rename(home / "project")
    before = picture(workspace)
    answer = run_as_user(home, container, workspace=workspace, script=WORK, view=choice)
    assert answer["output"].split() == ["public", "ran"]
    assert answer["kind"] == choice
    assert picture(workspace) == before
    assert _left(home, "views") == []


def test_working_folders_of_the_kernel_are_used_again_and_do_not_pile_up(
    home: Path, workspace: Path, container: PlainContainer
) -> None:
    give_to(workspace, UID)
    workspace = workspace.rename(home / "project")
    for _ in range(3):
        answer = run_as_user(
            home, container, workspace=workspace, script="rm secret.txt run.sh; ls"
        )
        assert answer["output"].split() == ["link", "src"]
        assert _left(home, "views") == []
        # The kernel left something of root's in it, which this user cannot delete.
        assert len(_left(home, "spare-work")) == 1


def test_a_read_only_view_takes_no_change(
    home: Path, workspace: Path, container: PlainContainer
) -> None:
    give_to(workspace, UID)
    workspace = workspace.rename(home / "project")
    answer = run_as_user(
        home,
        container,
        workspace=workspace,
        script="cat secret.txt; touch new",
        access="read_only",
    )
    assert answer["kind"] == "read_only"
    assert answer["output"].startswith("secret\n")
    assert "Read-only file system" in answer["output"]
    assert _left(home, "views") == _left(home, "spare-work") == []


@pytest.mark.parametrize("name", ["comma,name", "col:on", "new\nline", "back\\slash"])
def test_names_that_mount_options_cannot_carry(
    name: str, home: Path, container: PlainContainer
) -> None:
    root = home / name
    root.mkdir()
    (root / "file").write_text("content")
    give_to(root, UID)
    answer = run_as_user(home, container, workspace=root, script="cat file; pwd")
    assert (answer["kind"], answer["output"]) == ("overlay", f"content{root}\n")


def test_a_folder_that_locks_its_owner_out_is_counted_and_deleted(
    home: Path, workspace: Path, container: PlainContainer
) -> None:
    give_to(workspace, UID)
    workspace = workspace.rename(home / "project")
    script = "mkdir -p a/b; echo > a/b/c; chmod 000 a/b a"
    answer = run_as_user(home, container, workspace=workspace, script=script)
    assert answer["entries"] == 3
    assert _left(home, "views") == []


@pytest.mark.parametrize("choice", ["overlay", "copy"])
def test_changes_are_held_applied_and_undone(
    choice: str, home: Path, workspace: Path, container: PlainContainer
) -> None:
    give_to(workspace, UID)
    workspace = workspace.rename(home / "project")
    before = picture(workspace)
    script = f"{WORK}\nrm -r src/deep; mkdir src/deep; echo x > src/deep/x"
    called = run_as_user(
        home, container, workspace=workspace, script=script, view=choice, changes="hold"
    )
    assert called["decision"] == "held", called
    assert picture(workspace) == before

    def decide() -> dict[str, Any]:
        store = ChangeStore()
        found = {os.fsdecode(c.path): c.action for c in store.get(called["id"]).changes}
        problems = [str(problem) for problem in apply_set(store, called["id"]).problems]
        applied = apply_set(store, called["id"], allow_protected=True).done
        content = (workspace / "secret.txt").read_text()
        names = sorted(os.listdir(workspace / "src" / "deep"))
        undone = undo_set(store, called["id"]).done
        store.remove(called["id"])
        return {
            "done": [applied, undone],
            "found": found,
            "problems": problems,
            "seen": [content, *names],
        }

    answer = in_a_child_of_that_user(home, decide)
    assert answer["done"] == [True, True]
    assert answer["seen"] == ["public\n", "x"]
    assert answer["problems"] == ["link: it is a link that leaves the workspace"]
    assert answer["found"] == {
        "secret.txt": "modified",
        "src/new.txt": "added",
        "src/deep/data.bin": "deleted",
        "src/deep/x": "added",
        "src/other": "added",
        "src/other/below": "added",
        "link": "symlink",
    }
    assert picture(workspace) == before
    assert _left(home, "views") == []


def test_folders_that_lock_their_owner_out_are_applied_and_undone(
    home: Path, workspace: Path, container: PlainContainer
) -> None:
    give_to(workspace, UID)
    workspace = workspace.rename(home / "project")
    before = picture(workspace)
    script = (
        "mkdir -p lock/in; echo x > lock/in/f; mkdir ro; echo y > ro/f; echo z > src/z;"
        "chmod 000 lock/in lock; chmod 555 ro; chmod 300 src"
    )
    called = run_as_user(home, container, workspace=workspace, script=script, changes="hold")
    assert called["decision"] == "held", called

    def decide() -> dict[str, Any]:
        store = ChangeStore()
        modes = []
        for _ in range(2):
            assert apply_set(store, called["id"]).done
            modes += [f"{(workspace / name).stat().st_mode & 0o777:o}" for name in ("lock", "ro")]
            assert undo_set(store, called["id"]).done
        assert apply_set(store, called["id"]).done
        return {"modes": modes}

    assert in_a_child_of_that_user(home, decide) == {"modes": ["0", "555"] * 2}
    assert (workspace / "lock" / "in").stat().st_mode & 0o777 == 0
    assert (workspace / "lock" / "in" / "f").read_text() == "x\n"
    assert (workspace / "src").stat().st_mode & 0o777 == 0o300

    def undo() -> dict[str, Any]:
        (state,) = ChangeStore().sets()
        return {"done": undo_set(ChangeStore(), state.id).done}

    assert in_a_child_of_that_user(home, undo) == {"done": True}
    assert picture(workspace) == before


def test_a_session_of_an_ordinary_user_sees_its_held_changes(
    home: Path, workspace: Path, container: PlainContainer
) -> None:
    give_to(workspace, UID)
    workspace = workspace.rename(home / "project")
    first = run_as_user(
        home,
        container,
        workspace=workspace,
        changes="hold",
        session="s",
        script="rm -r src; mkdir src; echo one > src/new; rm secret.txt",
    )
    assert first["decision"] == "held", first
    second = run_as_user(
        home,
        container,
        workspace=workspace,
        changes="hold",
        session="s",
        script="ls . src; cat src/new; echo two >> src/new",
    )
    assert second["output"].split() == [".:", "link", "run.sh", "src", "src:", "new", "one"]
    assert second["decision"] == "held"


def test_a_workspace_of_somebody_else_is_refused(
    home: Path, workspace: Path, container: PlainContainer
) -> None:
    answer = run_as_user(home, container, workspace=workspace, script="true")
    assert answer["error"] == "InvalidWorkspace"


def test_a_container_runs_as_nobody_else(
    home: Path, workspace: Path, container: PlainContainer
) -> None:
    give_to(workspace, UID)
    workspace = workspace.rename(home / "project")
    answer = run_as_user(
        home,
        container,
        workspace=workspace,
        script="true",
        user=ContainerUser(uid=UID + 1, gid=UID),
    )
    assert answer["error"] == "UnsupportedOnEngine"


def _left(home: Path, kind: str) -> list[str]:
    folder = home / ".local/state/sandboxed-tools" / kind
    return os.listdir(folder) if folder.exists() else []
