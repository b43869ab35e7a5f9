"""From a spec to the engine's request: every option of a sandbox container, stated once.

Nothing is left to a default of the engine that could be weaker. The request is written as the API
knows it, because docker-py offers neither ``MaskedPaths`` nor ``CgroupnsMode`` in all versions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sandboxed_tools.sandbox.contract import ContainerUser, Mount, SandboxSpec
from sandboxed_tools.sandbox.docker.images import ResolvedImage
from sandboxed_tools.sandbox.docker.seccomp import profile_json
from sandboxed_tools.sandbox.docker.service_network import ServiceNetwork

__all__ = [
    "LAUNCHER_FOLDER",
    "LAUNCHER_PATH",
    "Mould",
    "VolumeMount",
    "attended",
    "confined",
    "create_request",
    "without_names",
]

LAUNCHER_FOLDER = "/.sandboxed-tools"
LAUNCHER_PATH = f"{LAUNCHER_FOLDER}/launcher"
CPU_PERIOD_US = 100_000
SHM_BYTES = 16 * 1024 * 1024

# The engine's own list (moby, oci/defaults.go) comes first, newer entries included: naming any
# path replaces the whole list. The rest are files that show the host and that no ordinary program
# needs: the kernel's command line, hardware, other processes' figures.
# fmt: off
_MASKED_PROC = (
    "asound", "acpi", "interrupts", "kcore", "keys", "latency_stats", "timer_list",
    "timer_stats", "sched_debug", "scsi", "cmdline", "bootconfig", "buddyinfo", "config.gz",
    "consoles", "crypto", "diskstats", "dma", "fb", "iomem", "ioports", "kallsyms", "key-users",
    "kmsg", "kpagecgroup", "kpagecount", "kpageflags", "locks", "mdstat", "modules", "mtrr",
    "pagetypeinfo", "partitions", "pressure", "schedstat", "slabinfo", "softirqs", "swaps",
    "sysrq-trigger", "sysvipc", "vmallocinfo", "zoneinfo",
)
_MASKED_SYS = (
    "firmware", "devices/virtual/powercap", "block", "class/dmi", "class/net",
    "devices/virtual/dmi", "hypervisor", "kernel", "module", "power",
)
# fmt: on
MASKED_PATHS = (
    *(f"/proc/{name}" for name in _MASKED_PROC),
    *(f"/sys/{name}" for name in _MASKED_SYS),
)


@dataclass(frozen=True, slots=True)
class Mould:
    """What containers are made from: equal moulds make containers that can replace each other.

    ``launcher`` says where process 1 comes from: the image itself, a volume that is mounted
    read-only into it, or nowhere (then the command is process 1).
    """

    spec: SandboxSpec
    image: ResolvedImage
    launcher: Literal["image", "volume", "none"]
    launcher_volume: str = ""
    cgroup_parent: str = ""


@dataclass(frozen=True, slots=True)
class VolumeMount:
    """A named volume that the engine made for a view, and where it stands."""

    name: str
    targets: tuple[str, ...]
    read_only: bool


def create_request(
    mould: Mould,
    *,
    user: ContainerUser,
    argv: tuple[str, ...],
    env: dict[str, str],
    cwd: str,
    volumes: tuple[VolumeMount, ...],
    binds: tuple[Mount, ...],
    labels: dict[str, str],
    network: ServiceNetwork | None = None,
) -> dict[str, Any]:
    """The body of ``POST /containers/create``.

    ``argv`` is the launcher and its arguments. ``env`` holds something only for a container without
    a launcher: whoever may ask the engine can read it. ``cwd`` is never a text of the command's.
    ``network`` is there exactly when the spec joins services.
    """
    if user.uid <= 0:
        raise ValueError("a sandbox container never runs as user 0")
    if (network is not None) != mould.spec.joins_services:
        raise ValueError("a spec that joins services needs its network, and no other has one")
    return {
        **attended(argv, labels=labels),
        "Image": mould.image.id,
        "Env": _environment(mould.image, env),
        "User": f"{user.uid}:{user.gid}",
        "Hostname": "sandbox",
        "WorkingDir": cwd,
        "HostConfig": _host_config(mould, volumes, binds, network),
    }


def attended(argv: tuple[str, ...], *, labels: dict[str, str]) -> dict[str, Any]:
    """What every container of ours has: a program that lives by its standard input."""
    return {
        "Entrypoint": [argv[0]],
        "Cmd": list(argv[1:]),
        "Labels": labels,
        "Tty": False,
        "OpenStdin": True,
        # The engine closes standard input when the first client is gone: that is the lease.
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": "SIGKILL",
    }


def confined(*, memory_bytes: int) -> dict[str, Any]:
    """What every container of ours is denied, and how much memory it may have, swap included."""
    return {
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true", f"seccomp={profile_json()}"],
        "ReadonlyRootfs": True,
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "Memory": memory_bytes,
        "MemorySwap": memory_bytes,
        "Init": False,
        "Privileged": False,
        "PublishAllPorts": False,
        "LogConfig": {"Type": "none", "Config": {}},
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
        "MaskedPaths": list(MASKED_PATHS),
    }


def without_names() -> dict[str, Any]:
    """No resolver: else the host's own and its search domains stand in ``/etc/resolv.conf``."""
    return {"Dns": ["127.0.0.1"], "DnsSearch": ["."]}


def _environment(image: ResolvedImage, env: dict[str, str]) -> list[str]:
    # A name without a value takes the image's variable away.
    removed = [name for name, _ in image.env if name not in env]
    return [*removed, *(f"{name}={value}" for name, value in env.items())]


def _host_config(
    mould: Mould,
    volumes: tuple[VolumeMount, ...],
    binds: tuple[Mount, ...],
    network: ServiceNetwork | None,
) -> dict[str, Any]:
    spec, limits = mould.spec, mould.spec.limits
    has_launcher = mould.launcher != "none"
    config: dict[str, Any] = {
        **confined(memory_bytes=limits.memory_bytes),
        "NetworkMode": spec.network,
        "ShmSize": min(SHM_BYTES, limits.memory_bytes),
        # The engine adds noexec unless exec is written; noexec stops no interpreter and breaks
        # compilers. Without a size a tmpfs takes half of the machine's memory.
        "Tmpfs": {
            "/tmp": f"rw,exec,nosuid,nodev,size={limits.tmp_bytes},"
            f"nr_inodes={limits.tmp_inodes},mode=1777"
        },
        "PidsLimit": limits.pids + (1 if has_launcher else 0),
        # Not NanoCpus: a quota set that way cannot be lifted, and a container that spins under a
        # small one cannot be killed.
        "CpuPeriod": CPU_PERIOD_US,
        "CpuQuota": round(limits.cpus * CPU_PERIOD_US),
        "Ulimits": _ulimits(mould, has_launcher=has_launcher),
        "OomScoreAdj": 500,
        "AutoRemove": has_launcher,
        "Mounts": _mounts(mould, volumes, binds),
    }
    if network is not None:
        config |= network.options()
    elif spec.network == "none":
        config |= without_names()
    if spec.runtime:
        config["Runtime"] = spec.runtime
    if mould.cgroup_parent:
        config["CgroupParent"] = mould.cgroup_parent
    return config


def _ulimits(mould: Mould, *, has_launcher: bool) -> list[dict[str, Any]]:
    limits = mould.spec.limits
    values = {"nofile": limits.open_files, "core": 0, "memlock": 64 * 1024, "msgqueue": 819_200}
    if not has_launcher:
        # With a launcher the limit is the command's alone: the launcher writes the script itself.
        values["fsize"] = limits.file_bytes
    # Never nproc: the kernel counts it for the UID, in all containers and on the host together.
    return [{"Name": name, "Soft": value, "Hard": value} for name, value in values.items()]


def _mounts(
    mould: Mould, volumes: tuple[VolumeMount, ...], binds: tuple[Mount, ...]
) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = []
    if mould.launcher == "volume":
        mounts.append(
            _volume(mould.launcher_volume, LAUNCHER_FOLDER, read_only=True),
        )
    for volume in volumes:
        mounts += [
            _volume(volume.name, target, read_only=volume.read_only) for target in volume.targets
        ]
    for bind in binds:
        mounts += [
            {
                "Type": "bind",
                "Source": bind.source,
                "Target": target,
                "ReadOnly": bind.read_only,
                # Without what is mounted below it, and without mounts that come later.
                "BindOptions": {"Propagation": "rprivate", "NonRecursive": True},
            }
            for target in bind.targets
        ]
    return mounts


def _volume(name: str, target: str, *, read_only: bool) -> dict[str, Any]:
    return {
        "Type": "volume",
        "Source": name,
        "Target": target,
        "ReadOnly": read_only,
        # NoCopy: else the engine copies into the volume what the image has at that place.
        "VolumeOptions": {"NoCopy": True},
    }
