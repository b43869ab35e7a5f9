"""A real engine that has other files than we: of a mount namespace in which ours are hidden."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import docker
import pytest
from tests.sandbox.docker.running import ENV

from sandboxed_tools.runtime.default_sandbox import open_default_sandbox
from sandboxed_tools.sandbox.contract import SandboxSpec, WorkspaceMount
from sandboxed_tools.sandbox.docker.endpoints import Endpoint
from sandboxed_tools.sandbox.docker.engine import Engine, ask_engine
from sandboxed_tools.sandbox.docker.images import image_tag
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.state import state_dir
from sandboxed_tools.workspace.apply import apply_set
from sandboxed_tools.workspace.change_store import ChangeStore

pytestmark = [
    pytest.mark.engine,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("dockerd") is None,
        reason="starting a second engine needs root and dockerd",
    ),
]

HIDE = 'mount -t tmpfs none "$1" && mount -t tmpfs none "$2" && shift 2 && exec "$@"'


@pytest.fixture
def elsewhere(
    base_image: str, api: docker.APIClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The address of an engine that sees neither our state folder nor the test's own folder."""
    folder = Path(tempfile.mkdtemp(prefix="s-"))
    url = f"unix://{folder}/e.sock"
    words = ["unshare", "--net", "--mount", "sh", "-c", HIDE, "sh", str(state_dir()), str(tmp_path)]
    words += ["dockerd", f"--host={url}", "--bridge=none", "--iptables=false"]
    words += [f"--pidfile={folder}/e.pid", f"--data-root={folder}/data"]
    words += [f"--exec-root={folder}/exec"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        deadline = time.monotonic() + 90
        endpoint = Endpoint(url, source="a test", is_explicit=True)
        while not isinstance(ask_engine(endpoint, timeout_s=2), Engine):
            assert process.poll() is None, (folder / "log").read_text()[-2000:]
            assert time.monotonic() < deadline
            time.sleep(0.1)
        target = docker.APIClient(base_url=url, timeout=120)
        try:
            for _ in target.load_image(api.get_image(image_tag(base_image))):  # type: ignore[no-untyped-call]
                pass
        finally:
            target.close()
        monkeypatch.setenv("DOCKER_HOST", url)
        yield url
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


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
