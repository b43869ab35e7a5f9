"""Every option of a sandbox container, as requested and as the engine has it."""

from __future__ import annotations

import json
from typing import Any

import anyio
import docker
import pytest
from tests.sandbox.docker.running import ENV

from sandboxed_tools.sandbox.contract import ContainerUser, Mount, SandboxSpec
from sandboxed_tools.sandbox.docker.backend import DockerSandbox
from sandboxed_tools.sandbox.docker.create import Mould, VolumeMount, create_request
from sandboxed_tools.sandbox.docker.images import ResolvedImage
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits

IMAGE = ResolvedImage(
    reference="some/image",
    id="sha256:" + "a" * 64,
    ours=False,
    has_launcher=False,
    architecture="amd64",
    size_bytes=1,
    env=(("PATH", "/bin"), ("SECRET", "of the image")),
    user="root",
    working_dir="/proc/self/fd/7",
    entrypoint=("/entry",),
    cmd=("run",),
)


def request_for(mould: Mould, **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "user": ContainerUser(1000, 1000),
        "argv": ("/launcher", "60"),
        "env": {},
        "cwd": "/",
        "volumes": (),
        "binds": (),
        "labels": {},
    }
    return create_request(mould, **{**values, **changes})


def test_user_0_is_refused() -> None:
    with pytest.raises(ValueError, match="user 0"):
        request_for(Mould(SandboxSpec("x"), IMAGE, "image"), user=ContainerUser(0, 0))


def test_nothing_of_the_images_own_configuration_is_used() -> None:
    request = request_for(Mould(SandboxSpec("x"), IMAGE, "image"))
    assert request["Image"] == IMAGE.id
    assert (request["Entrypoint"], request["Cmd"]) == (["/launcher"], ["60"])
    assert (request["User"], request["WorkingDir"]) == ("1000:1000", "/")
    assert request["Env"] == ["PATH", "SECRET"]  # names alone take the image's variables away
    assert request["Healthcheck"] == {"Test": ["NONE"]}


def test_paths_with_colons_and_commas_stay_one_path() -> None:
    odd = "/home/a:b,c=ro/x y"
    config = request_for(
        Mould(SandboxSpec("x"), IMAGE, "volume", "launcher-volume"),
        volumes=(VolumeMount("view", (odd, "/workspace"), read_only=False),),
        binds=(Mount("bind", (odd,), source=odd),),
    )["HostConfig"]
    assert [(m["Type"], m["Target"], m["ReadOnly"]) for m in config["Mounts"]] == [
        ("volume", "/.sandboxed-tools", True),
        ("volume", odd, False),
        ("volume", "/workspace", False),
        ("bind", odd, True),
    ]
    assert "Binds" not in config


def test_file_limit_is_the_engines_only_without_a_launcher() -> None:
    spec = SandboxSpec("x", limits=Limits(file_bytes=5))

    def names(request: dict[str, Any]) -> dict[str, int]:
        return {limit["Name"]: limit["Hard"] for limit in request["HostConfig"]["Ulimits"]}

    assert "fsize" not in names(request_for(Mould(spec, IMAGE, "image")))
    assert names(request_for(Mould(spec, IMAGE, "none")))["fsize"] == 5
    assert "nproc" not in names(request_for(Mould(spec, IMAGE, "none")))


def inspected_while_running(box: DockerSandbox, spec: SandboxSpec) -> dict[str, Any]:
    """What the engine says about the container of a call that is running."""
    found: list[dict[str, Any]] = []

    def look(_stream: str, _data: bytes) -> None:
        api = docker.APIClient()
        try:
            # By id: the container of an earlier call may still be going.
            for call in box.status().calls:
                found.append(api.inspect_container(call.container_id))
        finally:
            api.close()

    async def main() -> None:
        command = Command(("sh", "-c", "echo; sleep 1"), env={**ENV, "TOKEN": "very secret"})
        await box.run(spec, command, look)

    anyio.run(main)
    assert len(found) == 1
    return found[0]


@pytest.mark.engine
def test_running_container_has_every_default(sandbox: DockerSandbox, base_image: str) -> None:
    container = inspected_while_running(
        sandbox,
        SandboxSpec(base_image, limits=Limits(memory_bytes=64 << 20, cpus=0.5, pids=20)),
    )
    config, host = container["Config"], container["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert host["ReadonlyRootfs"] is True
    assert host["Privileged"] is False
    assert host["UsernsMode"] == ""
    assert (host["PidMode"], host["UTSMode"], host["IpcMode"]) == ("", "", "private")
    assert host["CgroupnsMode"] == "private"
    assert host["Memory"] == host["MemorySwap"] == 64 << 20
    assert (host["CpuPeriod"], host["CpuQuota"], host["NanoCpus"]) == (100_000, 50_000, 0)
    assert host["PidsLimit"] == 21
    assert host["LogConfig"]["Type"] == "none"
    assert host["RestartPolicy"]["Name"] == "no"
    assert host["Binds"] is None
    assert not host["Devices"]
    assert "/proc/cmdline" in host["MaskedPaths"]
    assert "/proc/kcore" in host["MaskedPaths"]
    options = host["SecurityOpt"]
    assert "no-new-privileges:true" in options
    (profile,) = (option for option in options if option.startswith("seccomp="))
    assert json.loads(profile.removeprefix("seccomp="))["defaultAction"] != "SCMP_ACT_ALLOW"
    assert config["User"].split(":")[0] not in ("", "0", "root")
    assert config["Image"].startswith("sha256:")
    assert config["Tty"] is False
    assert config["StdinOnce"] is True
    assert not container["Mounts"]
    assert not host["PortBindings"]


@pytest.mark.engine
def test_secrets_of_the_call_are_nowhere_in_the_containers_configuration(
    sandbox: DockerSandbox, base_image: str
) -> None:
    container = inspected_while_running(sandbox, SandboxSpec(base_image))
    assert "very secret" not in json.dumps(container)
    assert "TOKEN" not in json.dumps(container)


@pytest.mark.engine
def test_network_has_no_way_out_and_no_names(sandbox: DockerSandbox, base_image: str) -> None:
    command = Command(
        ("bash", "-c", "cat /proc/net/dev | tail -n +3; cat /etc/resolv.conf; ls /sys/class/net"),
        env=ENV,
    )
    result = anyio.run(sandbox.run, SandboxSpec(base_image), command)
    lines = result.stdout_text.splitlines()
    assert [line.split(":")[0].strip() for line in lines if ":" in line] == ["lo"]
    assert [line for line in lines if line.startswith("nameserver")] == ["nameserver 127.0.0.1"]
    assert not [line for line in lines if line.startswith("search") and line != "search ."]
