"""A real engine that has other files than we: of a mount namespace in which ours are hidden."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import docker
import pytest
from tests.sandbox.docker.running import ENV
from tests.sandbox.docker.second_engine import MARKS, second_engine

from sandboxed_tools.runtime.default_sandbox import open_default_sandbox
from sandboxed_tools.sandbox.contract import SandboxSpec, WorkspaceMount
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.state import state_dir
from sandboxed_tools.workspace.apply import apply_set
from sandboxed_tools.workspace.change_store import ChangeStore

pytestmark = MARKS


@pytest.fixture
def elsewhere(
    base_image: str, api: docker.APIClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The address of an engine that sees neither our state folder nor the test's own folder."""
    with second_engine(api, base_image, hidden=(state_dir(), tmp_path)) as engine:
        monkeypatch.setenv("DOCKER_HOST", engine.url)
        yield engine.url


def test_what_was_changed_on_an_engine_with_other_files_is_applied_here(
    elsewhere: str, base_image: str, tmp_path: Path
) -> None:
    workspace = tmp_path / "project"
    workspace.mkdir()
    (workspace / "kept.txt").write_text("kept\n")
    (workspace / "gone").touch()
    spec = SandboxSpec(
        base_image,
        limits=Limits.of(wall_s=60, memory_bytes="64m"),
        workspace=WorkspaceMount(workspace, changes="hold"),
    )
    text = "cat kept.txt; echo more >>kept.txt; rm gone; mkdir -p a/b; echo x >a/b/c; pwd"
    box = open_default_sandbox()
    try:
        result = anyio.run(box.run, spec, Command(("bash", "-c", text), env=ENV))
    finally:
        anyio.run(box.aclose)
    assert (result.status, result.stdout_text) == ("exited", f"kept\n{workspace}\n")
    assert result.view == "copy"
    assert any("does not share this machine's files" in note for note in result.warnings)
    assert result.changes is not None
    assert result.changes.id is not None
    assert apply_set(ChangeStore(), result.changes.id).done
    assert (workspace / "kept.txt").read_text() == "kept\nmore\n"
    assert (workspace / "a" / "b" / "c").read_text() == "x\n"
    assert not (workspace / "gone").exists()
    client = docker.APIClient(base_url=elsewhere)
    try:
        assert client.containers(all=True) == []
        assert not client.volumes()["Volumes"]
    finally:
        client.close()
