"""The gate as it is on this kernel, and a workspace in which only the gate forbids anything."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.host.attacker import Run, command_user

from sandboxed_tools.host import HostOutcome, bash_command, gate_status, run_on_host
from sandboxed_tools.tool.limits import Limits


@pytest.fixture(scope="session", autouse=True)
def _needs_the_gate() -> None:
    status = gate_status()
    if not status.available:
        reason = "the gate is not available here: " + "; ".join(status.reasons)
        if os.environ.get("CI", "").lower() not in {"", "0", "false"}:
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture
def workspace() -> Iterator[Path]:
    """A folder with one file, owned by the user that commands run as."""
    path = Path(tempfile.mkdtemp(prefix="host-workspace-"))
    try:
        path.chmod(0o755)
        (path / "kept").write_text("as it was\n", encoding="utf-8")
        (path / "folder").mkdir(mode=0o755)
        if os.geteuid() == 0:
            for item in (path, path / "kept", path / "folder"):
                os.chown(item, 65534, 65534)
        yield path
    finally:
        subprocess.run(["rm", "-rf", "--", path], check=True, timeout=60)


@pytest.fixture
def run(workspace: Path) -> Run:
    """Run a text in the gate, on the workspace; keyword arguments are those of ``run_on_host``."""

    def run_text(text: str, **options: Any) -> HostOutcome:
        arguments: dict[str, Any] = {"workspace": workspace, "limits": Limits(wall_s=120)} | options

        async def call() -> HostOutcome:
            return await run_on_host(bash_command(text), **arguments)

        return anyio.run(call)

    return run_text


@pytest.fixture
def outsider() -> Iterator[int]:
    """A process outside the gate, of the user that commands run as."""
    with subprocess.Popen(
        ["/usr/bin/sleep", "600"], env={"SECRET": "hidden-value"}, **command_user()
    ) as process:
        try:
            yield process.pid
        finally:
            process.kill()


@pytest.fixture(autouse=True)
def _no_scratch_folder_is_left() -> Iterator[None]:
    yield
    left = [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("sandboxed-too")]
    assert left == []
