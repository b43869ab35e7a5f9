"""A disk that fills up under a running call ends it, and never takes its result along."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests.sandbox.docker.running import ENV

from sandboxed_tools.sandbox.contract import SandboxSpec, WorkspaceMount
from sandboxed_tools.sandbox.docker.backend import DockerSandbox
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.mounts import ChangesMode
from sandboxed_tools.tool.result import Stream
from sandboxed_tools.workspace import ChangeStore
from sandboxed_tools.workspace.views import WorkspaceViews

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system"),
]


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small file system with the state folder on it."""
    folder = tmp_path / "small"
    folder.mkdir()
    options = "size=8m,mode=755"
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=True, timeout=30
    )
    monkeypatch.setenv("SANDBOXED_TOOLS_STATE_DIR", str(folder / "state"))
    yield folder
    deadline = time.monotonic() + 60
    # Views of killed calls are closed behind their backs.
    while subprocess.run(["umount", str(folder)], check=False, timeout=60).returncode:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def fill(folder: Path) -> None:
    with (folder / "filling").open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            return


@pytest.mark.parametrize("changes", ["hold", "apply"])
@pytest.mark.parametrize("end", ["exit 3", "sleep 100"])
def test_the_result_comes_and_says_that_the_changes_are_lost(
    end: str,
    changes: ChangesMode,
    small_disk: Path,
    tmp_path: Path,
    engine: Engine,
    base_image: str,
) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / "a.txt").write_text("a\n")

    said = threading.Event()

    def sink(_: Stream, __: bytes) -> None:
        said.set()

    async def full() -> AsyncIterator[bytes]:
        assert await anyio.to_thread.run_sync(said.wait, 60)
        await anyio.to_thread.run_sync(fill, small_disk)
        yield b"go on\n"

    script = f"echo b >> a.txt; echo said; read -r; {end}"
    command = Command(("bash", "-c", script), env=ENV, stdin=full())
    spec = SandboxSpec(
        base_image,
        limits=Limits.of(wall_s=60),
        workspace=WorkspaceMount(workspace, changes=changes, view="overlay"),
    )
    box = DockerSandbox(engine, views=WorkspaceViews(), warm=False)
    try:
        result = anyio.run(box.run, spec, command, sink)
        assert result.stdout == b"said\n"
        assert "disk" in result.limits_hit
        # The watch may look before a command has ended that wanted to end by itself.
        assert result.status == "disk_limit" or (result.status, end) == ("exited", "exit 3")
        if result.status == "exited":
            assert result.exit_code == 3
            assert result.changes is not None
            assert result.changes.decision == "discarded"
            assert "the changes are lost: No space left on device" in result.warnings
        assert (workspace / "a.txt").read_text() == "a\n"
    finally:
        (small_disk / "filling").unlink()
        box.close()
    assert [item.status for item in ChangeStore().sets() if item.status != "held"] == []
