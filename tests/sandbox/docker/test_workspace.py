"""Calls on a workspace, with the real views."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import docker
import pytest
from tests.sandbox.docker.running import ENV

from sandboxed_tools.errors import UnsupportedOnEngine
from sandboxed_tools.sandbox.contract import SandboxSpec, WorkspaceMount
from sandboxed_tools.sandbox.docker.backend import DockerSandbox
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.mounts import ViewChoice, WorkspaceAccess
from sandboxed_tools.tool.result import ExecResult
from sandboxed_tools.tool.state import installation_id
from sandboxed_tools.workspace.views import WorkspaceViews

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def box(engine: Engine, base_image: str) -> Iterator[DockerSandbox]:
    box = DockerSandbox(engine, views=WorkspaceViews(), warm=False)
    yield box
    box.close()


def run_on(
    box: DockerSandbox,
    image: str,
    workspace: Path,
    text: str,
    *,
    access: WorkspaceAccess = "copy_on_write",
    view: ViewChoice = "auto",
    cwd: str | None = None,
    **limits: object,
) -> ExecResult:
    spec = SandboxSpec(
        image,
        limits=Limits.of(**{"wall_s": 120, **limits}),
        workspace=WorkspaceMount(workspace, access=access, view=view),
    )
    return anyio.run(box.run, spec, Command(("bash", "-c", text), env=ENV, cwd=cwd))


@pytest.mark.parametrize("view", ["overlay", "copy"])
def test_workspace_stands_at_its_own_path_and_at_workspace(
    box: DockerSandbox, base_image: str, workspace: Path, view: ViewChoice
) -> None:
    result = run_on(
        box,
        base_image,
        workspace,
        f"pwd; cat private.txt; echo new >new.txt; cat /workspace/new.txt '{workspace}/new.txt'",
        view=view,
    )
    assert result.stdout_text == f"{workspace}\nprivatenew\nnew\n"
    assert (result.exit_code, result.view, result.cwd) == (0, view, str(workspace))


@pytest.mark.parametrize("view", ["overlay", "copy"])
def test_changes_are_thrown_away(
    box: DockerSandbox, base_image: str, workspace: Path, view: ViewChoice
) -> None:
    result = run_on(
        box,
        base_image,
        workspace,
        "echo changed >kept.txt; rm private.txt; mkdir -p a/b; touch a/b/c; rm -rf /workspace/*",
        view=view,
    )
    assert result.exit_code == 0
    assert result.changes is not None
    assert result.changes.decision == "discarded"
    assert sorted(path.name for path in workspace.iterdir()) == ["kept.txt", "private.txt"]
    assert (workspace / "kept.txt").read_text() == "kept"


def test_read_only_workspace_cannot_be_written(
    box: DockerSandbox, base_image: str, workspace: Path
) -> None:
    result = run_on(
        box, base_image, workspace, "cat kept.txt; touch x || exit 3", access="read_only"
    )
    assert (result.exit_code, result.stdout) == (3, b"kept")
    assert not (workspace / "x").exists()


def test_next_call_sees_what_changed_on_the_host(
    box: DockerSandbox, base_image: str, workspace: Path
) -> None:
    assert run_on(box, base_image, workspace, "cat kept.txt").stdout == b"kept"
    (workspace / "kept.txt").write_text("changed on the host")
    assert run_on(box, base_image, workspace, "cat kept.txt").stdout == b"changed on the host"


def test_too_many_changes_end_as_disk_limit(
    box: DockerSandbox, base_image: str, workspace: Path
) -> None:
    for text, limits in (
        ("while :; do head -c 2000000 /dev/zero >>big; sleep .05; done", {"changes_bytes": "8m"}),
        ("i=0; while :; do i=$((i+1)); : >f$i; done", {"changes_entries": 50}),
    ):
        result = run_on(box, base_image, workspace, text, **limits)
        assert (result.status, "disk" in result.limits_hit) == ("disk_limit", True)


def test_changes_over_their_limit_are_named_also_after_a_quick_end(
    box: DockerSandbox, base_image: str, workspace: Path
) -> None:
    result = run_on(
        box, base_image, workspace, "head -c 9000000 /dev/zero >big", changes_bytes="1m"
    )
    assert result.status == "exited"
    assert "disk" in result.limits_hit


def test_folder_outside_of_the_workspace_is_not_there(
    box: DockerSandbox, base_image: str, workspace: Path
) -> None:
    (workspace.parent / "outside.txt").write_text("outside")
    (workspace / "link").symlink_to("../outside.txt")
    result = run_on(box, base_image, workspace, "cat link ../outside.txt; ls ..")
    assert result.stdout_text == "my work\n"


def test_directory_may_be_any_folder_of_the_workspace(
    box: DockerSandbox, base_image: str, workspace: Path
) -> None:
    (workspace / "sub").mkdir()
    for cwd in (f"{workspace}/sub", "/workspace/sub"):
        assert run_on(box, base_image, workspace, "pwd -P", cwd=cwd).stdout_text == f"{cwd}\n"


def test_no_volume_of_a_view_is_left(
    engine: Engine, base_image: str, workspace: Path, api: docker.APIClient
) -> None:
    own = DockerSandbox(engine, views=WorkspaceViews(), warm=False)
    run_on(own, base_image, workspace, "touch a")
    run_on(own, base_image, workspace, "touch a; sleep 100", wall_s=0.5)
    own.close()
    mine = {"label": f"sandboxed-tools.installation={installation_id()}"}
    left = api.volumes(filters=mine)["Volumes"] or []
    assert not [v["Name"] for v in left if v["Labels"]["sandboxed-tools.pid"] == str(os.getpid())]


def test_workspace_without_views_is_refused(
    sandbox: DockerSandbox, base_image: str, workspace: Path
) -> None:
    with pytest.raises(UnsupportedOnEngine):
        run_on(sandbox, base_image, workspace, "true")
