"""Invariants 2 and 3: a container serves one call, and is made with every default."""

from __future__ import annotations

import io
import json
import os
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from sandboxed_tools.errors import ImageRefused
from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker.seccomp import profile_json
from sandboxed_tools.testing.conformance.bench import until
from sandboxed_tools.tool import Command, Limits
from sandboxed_tools.tool.state import installation_id

if TYPE_CHECKING:
    import docker

    from sandboxed_tools.sandbox.docker import DockerSandbox

pytestmark = pytest.mark.engine

SECRET = "s3cr3t-d41d8cd98f00b204"
MASKED_BY_DOCKER = {
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
}


def mine() -> dict[str, str]:
    return {"label": f"sandboxed-tools.installation={installation_id()}"}


@pytest.fixture
def inspected(
    api: docker.APIClient, sandbox: DockerSandbox, workspace: Path
) -> list[dict[str, Any]]:
    """Everything that the engine says about each container of ours while a call runs."""
    from sandboxed_tools.sandbox.contract import WorkspaceMount

    found: list[dict[str, Any]] = []

    async def main() -> None:
        spec = SandboxSpec("sandboxed-tools/base", Limits.of(wall_s=30), WorkspaceMount(workspace))
        command = Command(
            ("bash", "-c", "echo up; sleep 600"), env={"PATH": "/usr/bin:/bin", "TOKEN": SECRET}
        )
        up: list[bytes] = []
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(sandbox.run, spec, command, lambda _, data: up.append(data))
                with anyio.fail_after(30):
                    await until(lambda: up)
                for item in api.containers(all=True, filters=mine()):
                    found.append(api.inspect_container(item["Id"]))
                scope.cancel()

    anyio.run(main)
    assert found
    return found


def test_no_call_gets_more_than_the_defaults(inspected: list[dict[str, Any]]) -> None:
    for container in inspected:
        host = container["HostConfig"]
        assert host["NetworkMode"] == "none"
        assert host["CapDrop"] == ["ALL"]
        assert not host["CapAdd"]
        assert not host["Privileged"]
        assert host["ReadonlyRootfs"]
        assert host["IpcMode"] == "private"
        assert (host["PidMode"], host["UTSMode"], host["UsernsMode"]) == ("", "", "")
        assert host["CgroupnsMode"] == "private"
        assert not host["Devices"]
        assert not host["DeviceRequests"]
        assert not host["VolumesFrom"]
        assert host["RestartPolicy"]["Name"] in ("", "no")
        assert host["LogConfig"]["Type"] == "none"
        assert not host["OomKillDisable"]


def test_privileges_cannot_grow_and_calls_are_filtered_by_our_profile(
    inspected: list[dict[str, Any]],
) -> None:
    for container in inspected:
        options = container["HostConfig"]["SecurityOpt"]
        assert "no-new-privileges:true" in options or "no-new-privileges" in options
        (filtered,) = (option for option in options if option.startswith("seccomp="))
        assert json.loads(filtered.removeprefix("seccomp=")) == json.loads(profile_json())


def test_the_user_is_a_number_and_never_root(inspected: list[dict[str, Any]]) -> None:
    for container in inspected:
        uid, gid = container["Config"]["User"].split(":")
        assert int(uid) > 0
        assert int(gid) > 0
        if os.geteuid() != 0:
            assert int(uid) == os.geteuid()


def test_every_resource_is_limited(inspected: list[dict[str, Any]]) -> None:
    for container in inspected:
        host = container["HostConfig"]
        assert 0 < host["Memory"] == host["MemorySwap"]
        assert 0 < host["PidsLimit"] <= 513
        assert host["CpuPeriod"] > 0
        assert host["CpuQuota"] >= 0.1 * host["CpuPeriod"]
        assert host["NanoCpus"] == 0  # cannot be lifted again before a kill
        limits = {limit["Name"]: limit["Hard"] for limit in host["Ulimits"]}
        assert limits["core"] == 0
        for options in host["Tmpfs"].values():
            assert "size=" in options


def test_leaks_of_the_kernel_are_masked(inspected: list[dict[str, Any]]) -> None:
    for container in inspected:
        masked = set(container["HostConfig"]["MaskedPaths"])
        assert masked >= MASKED_BY_DOCKER | {"/proc/cmdline", "/proc/interrupts"}
        assert container["HostConfig"]["ReadonlyPaths"]


def test_the_image_is_named_by_digest(inspected: list[dict[str, Any]]) -> None:
    for container in inspected:
        assert container["Config"]["Image"].startswith("sha256:")


def test_nothing_of_the_call_is_in_the_containers_configuration(
    inspected: list[dict[str, Any]],
) -> None:
    for container in inspected:
        assert SECRET not in json.dumps(container)
        assert "sleep 600" not in json.dumps(container)
        # A name without "=" takes the variable of the image away.
        assert {entry.split("=")[0] for entry in container["Config"]["Env"] or ()} <= {"PATH"}


def test_no_mount_reaches_the_engine_or_writes_to_the_workspace(
    inspected: list[dict[str, Any]], workspace: Path
) -> None:
    for container in inspected:
        for mount in container["Mounts"]:
            assert not mount["Source"].endswith(".sock")
            assert mount["Source"] not in ("/", "/var/run", "/run", "/etc")
            assert mount["Source"] != str(workspace) or not mount["RW"]


def test_each_container_starts_once_and_is_entered_by_nobody_else(
    api: docker.APIClient, sandbox: DockerSandbox, workspace: Path
) -> None:
    calls = 5

    async def main() -> set[bytes]:
        users = set()
        async with Toolbox(sandbox=sandbox, workspace=workspace) as box:
            for _ in range(calls):
                done = await box.call(
                    "Bash", {"command": "test ! -e /tmp/x && touch /tmp/x && id -u"}
                )
                assert done.exec is not None
                assert done.exec.exit_code == 0
                users.add(done.exec.stdout)
        return users

    since = int(time.time()) - 1
    users = anyio.run(main)
    sandbox.close()
    until = int(time.time()) + 1
    events = list(api.events(since=since, until=until, filters=mine(), decode=True))
    by_container: dict[str, list[str]] = {}
    for event in events:
        if event["Type"] == "container":
            by_container.setdefault(event["id"], []).append(event["Action"].split(":")[0])
    assert len(by_container) >= calls
    for actions in by_container.values():
        assert actions.count("start") <= 1
        assert not set(actions) & {"exec_create", "exec_start", "restart", "unpause", "update"}
        assert "destroy" in actions
    assert len(users) == (calls if os.geteuid() == 0 else 1)


@pytest.mark.parametrize(
    "line",
    [
        "ENV LD_PRELOAD=/tmp/x.so",
        "ENV BASH_ENV=/tmp/x",
        "ENV ENV=/tmp/x",
        "VOLUME /data",
        "LABEL sandboxed-tools.owner=me",
    ],
)
def test_an_image_that_would_weaken_the_sandbox_is_refused(
    api: docker.APIClient, sandbox: DockerSandbox, base_image: str, line: str
) -> None:
    from sandboxed_tools.sandbox.docker.images import resolve_image

    name = f"sandboxed-tools-tests/weakens:{uuid.uuid4().hex}"  # others run beside us
    dockerfile = f"FROM {resolve_image(api, base_image).id}\n{line}\n".encode()
    steps = list(api.build(fileobj=io.BytesIO(dockerfile), tag=name, rm=True, decode=True))
    assert not any("error" in step for step in steps), steps
    try:

        async def main() -> None:
            async with Toolbox(sandbox=sandbox, image=name) as box:
                with pytest.raises(ImageRefused):
                    await box.call("Bash", {"command": "touch x"})

        anyio.run(main)
    finally:
        api.remove_image(name, force=True)
