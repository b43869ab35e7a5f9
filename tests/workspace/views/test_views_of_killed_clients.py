"""Whenever a client is killed, the next clean-up leaves nothing of it, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandboxed_tools.tool.mounts import ContainerUser, WorkspaceMount
from sandboxed_tools.workspace.views import WorkspaceViews

from .conftest import OpenView, left_in, picture

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts with other owners need root")

CLIENT = """
import sys
from pathlib import Path
from sandboxed_tools.tool.mounts import ContainerUser, WorkspaceMount
from sandboxed_tools.workspace.views import WorkspaceViews

views, number = WorkspaceViews(), 0
print("ready", flush=True)
while True:
    number += 1
    view = views.open(
        WorkspaceMount(
            source=Path(sys.argv[1]),
            view=("overlay", "copy")[number % 2],
            access=("read_only", "copy_on_write")[number % 3 == 0],
        ),
        ContainerUser(uid=70000 + number, gid=70000),
    )
    if number % 5:
        view.close()
"""


def test_sigkill_at_any_moment_then_gc_leaves_nothing(
    workspace: Path, views: WorkspaceViews, state: Path
) -> None:
    before = picture(workspace)
    for moment in range(12):
        client = subprocess.Popen(
            [sys.executable, "-c", CLIENT, str(workspace)], stdout=subprocess.PIPE
        )
        with client:
            assert client.stdout is not None
            assert client.stdout.readline() == b"ready\n"
            _wait_until_there_is_work(state, client, moment)
            client.send_signal(signal.SIGKILL)
        views.gc()
        assert left_in(state) == []
        assert str(state) not in Path("/proc/self/mountinfo").read_text()
        assert picture(workspace) == before


def _wait_until_there_is_work(state: Path, client: subprocess.Popen[bytes], moment: int) -> None:
    """Wait for a first view, and then for a moment that differs from round to round."""
    deadline = time.monotonic() + 60
    while not left_in(state):
        assert client.poll() is None
        assert time.monotonic() < deadline
    end = time.monotonic() + moment * 0.0037
    while time.monotonic() < end:
        pass


def test_gc_leaves_the_views_of_the_living_alone(
    workspace: Path, open_view: OpenView, views: WorkspaceViews, state: Path
) -> None:
    view = open_view(workspace)
    assert views.gc() == 0
    assert len(left_in(state)) == 1
    assert (Path(view.mounts[0].lowers[0]) / "secret.txt").read_text() == "secret\n"


def test_gc_leaves_alone_what_it_cannot_prove_dead(
    workspace: Path, open_view: OpenView, views: WorkspaceViews, state: Path
) -> None:
    view = open_view(workspace)
    name = Path(view.mounts[0].lowers[0]).parent.name
    machine, boot, *rest = name.split("-")
    strange = [
        "-".join(["otherhost", boot, *rest]),
        "-".join([machine, boot, "1", *rest[1:]]),
        "notes",
        "..hidden",
    ]
    for other in strange:
        (state / "views" / other).mkdir()
    assert views.gc() == 0
    for other in strange:
        (state / "views" / other).rmdir()


def test_gc_removes_what_an_earlier_boot_left(views: WorkspaceViews, state: Path) -> None:
    view = views.open(WorkspaceMount(source=state.parent / "p"), ContainerUser(uid=9999, gid=9999))
    machine, _, *rest = Path(view.mounts[0].lowers[0]).parent.name.split("-")
    view.close()
    old = state / "views" / "-".join([machine, "0" * 16, *rest])
    (old / "upper" / "deep").mkdir(parents=True)
    (old / "lower").mkdir()
    (old / "work" / "work").mkdir(parents=True, mode=0)
    assert views.gc() == 1


@pytest.fixture(autouse=True)
def _a_second_workspace(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
