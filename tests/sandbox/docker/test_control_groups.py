"""What the kernel's control groups count reaches the result; an operator's group holds them all."""

from __future__ import annotations

import secrets
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest
from tests.sandbox.docker.running import ENV, Run

from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker.backend import DockerSandbox
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.state import installation_id

if TYPE_CHECKING:
    import docker

pytestmark = pytest.mark.engine

MIB = 1024 * 1024
WORK = """
import os, time
held = bytearray(40 << 20)
for _ in range(5):
    if os.fork() == 0: time.sleep(1); os._exit(0)
while time.process_time() < 0.5: pass
for _ in range(5): os.wait()
"""


def version_2(engine: Engine) -> None:
    if engine.cgroup_version != "2":
        pytest.skip("this engine has control groups of version 1; this is about version 2")


def test_every_figure_of_a_call_is_known_where_the_kernel_counts_it(
    engine: Engine, run: Run
) -> None:
    version_2(engine)
    done = run(("python3", "-ISc", WORK))
    assert (done.status, done.exit_code) == ("exited", 0)
    used = done.usage
    assert used.cpu_s is not None
    assert used.memory_peak_bytes is not None
    assert used.pids_peak is not None
    assert 0.5 <= used.cpu_s < 60
    assert 40 * MIB <= used.memory_peak_bytes <= 512 * MIB
    assert 7 <= used.pids_peak <= 16


def test_what_touched_its_limits_is_counted_by_the_kernel_itself(engine: Engine, run: Run) -> None:
    version_2(engine)
    eaten = run("python3 -ISc 'b = bytearray(10**9)'; echo went on", memory_bytes=64 * MIB)
    assert (eaten.status, eaten.stdout) == ("exited", b"went on\n")
    assert "memory" in eaten.limits_hit
    assert eaten.usage.memory_peak_bytes is not None
    assert eaten.usage.memory_peak_bytes <= 65 * MIB
    forked = run("for i in $(seq 40); do sleep 5 & done 2>/dev/null; kill $(jobs -p)", pids=16)
    assert "pids" in forked.limits_hit
    assert forked.usage.pids_peak is not None
    assert forked.usage.pids_peak == 16 + 1  # and the launcher


def test_all_containers_are_below_the_operators_control_group(
    engine: Engine, api: docker.APIClient, base_image: str
) -> None:
    version_2(engine)
    name = f"sandboxedtools{secrets.token_hex(4)}"
    parent = f"{name}.slice" if "systemd" in engine.facts["cgroup"] else f"/{name}"
    looked = threading.Event()
    seen: list[str] = []

    async def until_looked_at() -> AsyncIterator[bytes]:
        await anyio.to_thread.run_sync(looked.wait, 60)
        yield b"go on\n"

    def look(_: str, __: bytes) -> None:
        if not looked.is_set():
            seen.extend(groups(api))
            looked.set()

    sandbox = DockerSandbox(engine, cgroup_parent=parent)
    try:
        spec = SandboxSpec(base_image, limits=Limits.of(wall_s=90))
        command = Command(("sh", "-c", "echo up; read go"), stdin=until_looked_at(), env=ENV)
        done = anyio.run(sandbox.run, spec, command, look)
    finally:
        sandbox.close()
    assert (done.status, done.exit_code) == ("exited", 0)
    assert seen
    assert all(name in group for group in seen), seen


def groups(api: docker.APIClient) -> list[str]:
    """The control groups of this installation's running containers, as the host sees them."""
    mine = {"label": f"sandboxed-tools.installation={installation_id()}"}
    pids = [
        api.inspect_container(container["Id"])["State"]["Pid"]
        for container in api.containers(filters=mine)
    ]
    return [Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8") for pid in pids if pid]
