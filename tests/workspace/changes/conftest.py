"""Calls on views without an engine: the same overlay, mounted here, and bash without privileges."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandboxed_tools.tool.mounts import ContainerUser, View, WorkspaceMount
from sandboxed_tools.tool.result import ChangeSummary
from sandboxed_tools.workspace.change import ChangeSet
from sandboxed_tools.workspace.change_store import ChangeStore
from sandboxed_tools.workspace.views import WorkspaceViews

USER = ContainerUser(uid=0x70004321, gid=0x70004321)


@dataclass(frozen=True)
class Called:
    """What became of one call: the summary, and what it printed."""

    summary: ChangeSummary
    output: str

    @property
    def id(self) -> str:
        assert self.summary.id is not None
        return self.summary.id


def run_in(folder: Path, script: str, user: ContainerUser = USER) -> str:
    """Run bash in a folder as a user without any privilege; its output, both streams."""
    done = subprocess.run(
        [
            *("setpriv", f"--reuid={user.uid}", f"--regid={user.gid}", "--clear-groups"),
            *("--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"),
            *("bash", "-c", f"umask 022; {script}"),
        ],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=500,
        check=False,
    )
    return done.stdout.decode("utf-8", "surrogateescape")


def run_on(view: View, script: str, user: ContainerUser = USER) -> str:
    """Run a script on a view as the engine would have it mounted."""
    (mount,) = view.mounts
    if mount.kind != "overlay":
        # As the engine's own mount would be, the way there is open to the user.
        with _passable(Path(mount.source)):
            return run_in(Path(mount.source), script, user)
    merged = Path(tempfile.mkdtemp(prefix="merged-"))
    merged.chmod(0o711)
    command = ["mount", "-t", "overlay", "overlay", "-o", mount.overlay_options, str(merged)]
    try:
        subprocess.run(command, check=True, timeout=30)
        try:
            return run_in(merged, script, user)
        finally:
            subprocess.run(["umount", str(merged)], check=True, timeout=30)
    finally:
        merged.rmdir()


class _passable:
    """Lets everybody pass through the parents of a folder; those that we made, for a while.

    pytest's own stay open: other workers' tests pass through them at the same time.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._modes: dict[Path, int] = {}

    def __enter__(self) -> None:
        for parent in self._folder.parents:
            mode = stat.S_IMODE(parent.stat().st_mode)
            if not mode & 0o001:
                if parent.is_relative_to(os.environ["SANDBOXED_TOOLS_STATE_DIR"]):
                    self._modes[parent] = mode
                parent.chmod(mode | 0o011)

    def __exit__(self, *_: object) -> None:
        for parent, mode in self._modes.items():
            parent.chmod(mode)


Call = Callable[..., Called]


@pytest.fixture
def state_disk(tmp_path: Path) -> Path:
    """The folder in which the state folder is made; tests put another file system there."""
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


@pytest.fixture
def state(state_disk: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder of this test alone, in which no view may be left."""
    folder = state_disk / "state"
    monkeypatch.setenv("SANDBOXED_TOOLS_STATE_DIR", str(folder))
    yield folder
    left = [path.name for path in folder.glob("views/*")]
    left += [path.name for path in folder.glob("changes/.*")]
    assert left == []


@pytest.fixture
def other_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of its own."""
    folder = tmp_path / "other"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def store(state: Path) -> ChangeStore:
    return ChangeStore()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A project with files, folders, links and private modes."""
    root = tmp_path / "project"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "docs").mkdir()
    (root / "keep.txt").write_text("keep\n")
    (root / "secret.txt").write_text("one\ntwo\nthree\n")
    (root / "secret.txt").chmod(0o600)
    (root / "src" / "main.py").write_text("print('hello')\n")
    (root / "src" / "deep" / "data.bin").write_bytes(bytes(range(256)) * 10)
    (root / "docs" / "a.md").write_text("# A\n")
    (root / "docs" / "b.md").write_text("# B\n")
    (root / "link").symlink_to("src/main.py")
    (root / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (root / "run.sh").chmod(0o755)
    os.link(root / "run.sh", root / "src" / "hard")
    return root


@pytest.fixture
def call(state: Path, workspace: Path) -> Call:
    """Makes one call on the workspace: opens a view, runs a script, settles and closes."""
    views = WorkspaceViews()

    def make(
        script: str,
        *,
        ended_by_itself: bool = True,
        meanwhile: Callable[[], None] = lambda: None,
        **choices: Any,
    ) -> Called:
        choices = {"source": workspace, "changes": "hold", **choices}
        view = views.open(WorkspaceMount(**choices), USER)
        try:
            # A copy that takes seconds is out of date at once, and used for its call all the same.
            assert view.begin() or view.kind == "copy"
            output = run_on(view, script)
            meanwhile()
            return Called(view.settle(ended_by_itself=ended_by_itself), output)
        finally:
            view.close()

    return make


def picture(root: Path, *, times: bool = True) -> dict[str, tuple[object, ...]]:
    """Everything about a tree that an undo must restore."""
    found: dict[str, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(root):
        for name in (".", *folders, *files):
            path = Path(folder, name)
            found[os.path.relpath(path, root)] = _facts(path, times=times)
    return found


def _facts(path: Path, *, times: bool) -> tuple[object, ...]:
    info = path.lstat()
    content: object = None
    if stat.S_ISREG(info.st_mode):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    elif stat.S_ISLNK(info.st_mode):
        content = os.readlink(path)
    stamp = info.st_mtime_ns if times else None
    return (info.st_mode, info.st_uid, info.st_gid, stamp, content)


def actions(change_set: ChangeSet) -> dict[str, str]:
    """What happened to which path."""
    return {os.fsdecode(change.path): change.action for change in change_set.changes}
