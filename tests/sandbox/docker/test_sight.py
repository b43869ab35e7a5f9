"""The engine is asked which paths it has, and nothing comes of the question."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from sandboxed_tools.errors import UnsupportedOnEngine
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.sandbox.docker.sight import path_question
from sandboxed_tools.tool.mounts import ContainerUser, WorkspaceMount
from sandboxed_tools.workspace.views import WorkspaceViews

pytestmark = pytest.mark.engine

USER = ContainerUser(uid=0x70000001, gid=0x70000001)


def test_what_is_there_is_seen_and_what_is_not_is_not(engine: Engine, tmp_path: Path) -> None:
    asks = path_question(engine)
    (tmp_path / "file").touch()
    assert asks(str(tmp_path))
    assert asks(str(tmp_path / "file"))
    assert not asks(str(tmp_path / "missing"))


def test_asking_makes_no_container(engine: Engine, api: docker.APIClient, tmp_path: Path) -> None:
    asks = path_question(engine)
    known = {item["Id"] for item in api.containers(all=True)}
    asks(str(tmp_path))
    asks(str(tmp_path / "missing"))
    new = [item for item in api.containers(all=True) if item["Id"] not in known]
    assert not any("sandboxed-tools/none" in item["Image"] for item in new)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_a_mount_of_ours_is_seen_and_one_in_a_namespace_of_its_own_is_not(
    engine: Engine, tmp_path: Path
) -> None:
    asks = path_question(engine)
    target = tmp_path / "target"
    target.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(target)], check=True)
    try:
        (target / "mark").touch()
        assert asks(str(target / "mark"))
    finally:
        subprocess.run(["umount", str(target)], check=True)
    private = f"mount -t tmpfs none '{target}' && touch '{target}/mark' && echo ready && read _"
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", private],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as elsewhere:
        assert elsewhere.stdout is not None
        assert elsewhere.stdout.readline() == b"ready\n"
        assert not asks(str(target / "mark"))
        elsewhere.communicate(b"\n", timeout=30)


def test_views_are_made_for_an_engine_that_shares_our_files(engine: Engine, tmp_path: Path) -> None:
    view = WorkspaceViews(engine_sees=path_question(engine)).open(
        WorkspaceMount(source=tmp_path), USER
    )
    view.close()
    assert view.kind == "overlay"


def test_an_engine_in_a_virtual_machine_sees_nothing_of_ours(
    engine: Engine, tmp_path: Path
) -> None:
    other_kernel = replace(engine, facts={**engine.facts, "kernel": "0.0.1-another"})
    for elsewhere in (replace(engine, desktop=True), other_kernel):
        assert not path_question(elsewhere)(str(tmp_path))


def test_an_engine_with_other_files_and_no_carrier_gets_no_workspace(tmp_path: Path) -> None:
    views = WorkspaceViews(engine_sees=lambda path: False)
    with pytest.raises(UnsupportedOnEngine, match="does not share"):
        views.open(WorkspaceMount(source=tmp_path), USER)


def test_an_engine_that_does_not_see_our_mounts_gets_a_copy(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only a root client makes mounts")
    views = WorkspaceViews(engine_sees=lambda path: "/lower/" not in path)
    view = views.open(WorkspaceMount(source=tmp_path), USER)
    view.close()
    assert view.kind == "copy"
    assert any("mounts" in note for note in view.warnings)
