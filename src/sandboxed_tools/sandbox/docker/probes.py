"""Whether each limit is really enforced here, proved inside a container made as calls' are.

An engine accepts options that the kernel under it does not enforce (no swap accounting, a cgroup
that is not delegated, no seccomp), with no more than a warning. So nothing that the engine says
counts as proof: a probe container tries each thing.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

from sandboxed_tools.errors import SandboxedToolsError
from sandboxed_tools.sandbox.contract import (
    Capabilities,
    Capability,
    SandboxSpec,
    ViewProvider,
    WorkspaceMount,
)
from sandboxed_tools.sandbox.docker.advisories import check_advisories
from sandboxed_tools.sandbox.docker.create import Mould, create_request
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.sandbox.docker.images import BASE_IMAGE, ResolvedImage, resolve_image
from sandboxed_tools.sandbox.docker.owner import Owner
from sandboxed_tools.sandbox.docker.user import choose_user
from sandboxed_tools.tool.limits import Limits

if TYPE_CHECKING:
    import docker

__all__ = ["probe_engine"]

MIB = 1024 * 1024
LIMITS = Limits(
    memory_bytes=64 * MIB, cpus=0.5, pids=32, tmp_bytes=4 * MIB, tmp_inodes=64, open_files=256
)
PROBE_DEADLINE_S = 90.0
DENIED = frozenset({"EPERM", "EACCES", "ENOSYS", "EROFS", "EAFNOSUPPORT", "ESOCKTNOSUPPORT"})
UNREACHABLE = frozenset({"ENETUNREACH", "EHOSTUNREACH", "EPERM", "EACCES"})

Found = Mapping[str, Any]


def probe_engine(engine: Engine, *, views: ViewProvider | None = None) -> Capabilities:
    """Probe what ``engine`` enforces. Blocking, a few seconds; leaves nothing behind.

    ``views`` is asked for a view of a scratch workspace. A probe that cannot be made is reported as
    ``unknown``, never left out.

    Raises:
        EngineFault: the engine went away before anything could be asked.
    """
    api = engine.api(timeout_s=PROBE_DEADLINE_S)
    try:
        items = (
            *_inside(api, engine),
            _storage_quota(api),
            *_from_the_engine(engine),
            _view(views),
            *check_advisories(engine.facts),
        )
    finally:
        api.close()
    return Capabilities(backend=engine.kind, facts=dict(engine.facts), items=items)


def _inside(api: docker.APIClient, engine: Engine) -> Iterator[Capability]:
    try:
        image = resolve_image(api, BASE_IMAGE)
    except SandboxedToolsError as error:
        yield Capability("image", "missing", str(error), "sandboxed-tools images build")
        yield from (Capability(rule.name, "unknown", "no image to probe in") for rule in RULES)
        return
    yield Capability("image", "enforced", f"{image.reference} is {image.id[7:19]}")
    try:
        found = _run_probe(api, engine, image)
    except (DockerException, RequestException, OSError, ValueError) as error:
        why = f"the probe container failed: {str(error)[:300]}"
        yield from (Capability(rule.name, "unknown", why) for rule in RULES)
        return
    yield from (rule.judge(found) for rule in RULES)


def _run_probe(api: docker.APIClient, engine: Engine, image: ResolvedImage) -> Found:
    """Run the probes in one container with the very options of a call's."""
    script = files(__package__).joinpath("probe_inside.py").read_text(encoding="utf-8")
    arguments = (LIMITS.tmp_bytes, LIMITS.pids, LIMITS.memory_bytes)
    request = create_request(
        Mould(SandboxSpec(image.reference, limits=LIMITS), image, launcher="none"),
        user=choose_user(is_mapped=engine.rootless or engine.userns_remap),
        argv=("python3", "-I", "-c", script, *map(str, arguments)),
        env={"PATH": "/usr/bin:/bin"},
        cwd="/",
        volumes=(),
        binds=(),
        labels=Owner.current().labels(deadline_s=2 * PROBE_DEADLINE_S, kind="probe"),
    )
    # Read after the end: it prints one line, so there is nothing to stream. And nobody holds its
    # standard input.
    request["HostConfig"]["LogConfig"] = {"Type": "json-file", "Config": {"max-size": "1m"}}
    request |= {"OpenStdin": False, "StdinOnce": False, "AttachStdin": False}
    created = api.create_container_from_config(request)  # type: ignore[no-untyped-call]
    identity: str = created["Id"]
    try:
        api.start(identity)
        api.wait(identity, timeout=PROBE_DEADLINE_S)  # type: ignore[arg-type]
        output: bytes = api.logs(identity, stdout=True, stderr=False)
        errors: bytes = api.logs(identity, stdout=False, stderr=True)
    finally:
        api.remove_container(identity, force=True, v=True)
    lines = output.splitlines()
    if not lines:
        raise ValueError(errors[-300:].decode("utf-8", "replace") or "it printed nothing")
    found = json.loads(lines[-1])
    if not isinstance(found, dict):
        raise ValueError("it printed something else")
    return found


@dataclass(frozen=True, slots=True)
class Rule:
    """One promise: when it holds, by what was found, and the evidence in words."""

    name: str
    holds: Callable[[Found], bool]
    evidence: Callable[[Found], str]
    advice: str = ""

    def judge(self, found: Found) -> Capability:
        try:
            holds, evidence = self.holds(found), self.evidence(found)
        except (KeyError, TypeError, ValueError) as error:
            return Capability(self.name, "unknown", f"the probe gave no answer ({error!r})")
        if holds:
            return Capability(self.name, "enforced", evidence)
        return Capability(self.name, "missing", evidence, self.advice)


def _denied(key: str, what: str) -> tuple[Callable[[Found], bool], Callable[[Found], str]]:
    return (lambda f: f[key] in DENIED), (lambda f: f"{what}: {f[key]}")


def _cpu_share(found: Found) -> float:
    return float(found["cpu"]["cpu_s"]) / float(found["cpu"]["wall_s"])


SECCOMP_ADVICE = "the engine or the kernel does not apply the seccomp profile"
CGROUP_ADVICE = "the engine's cgroups do not carry this controller; see 'docker info' for warnings"

RULES = (
    Rule(
        "user",
        lambda f: f["uid"] != 0,
        lambda f: f"runs as user {f['uid']}",
    ),
    Rule(
        "no capabilities",
        lambda f: all(int(value, 16) == 0 for value in f["capabilities"].values()),
        lambda f: "all five sets: " + " ".join(sorted(set(f["capabilities"].values()))),
    ),
    Rule(
        "no new privileges",
        lambda f: f["no_new_privileges"] == "1",
        lambda f: f"NoNewPrivs is {f['no_new_privileges']}",
    ),
    Rule(
        "seccomp",
        lambda f: f["seccomp"] == "2",
        lambda f: f"Seccomp is {f['seccomp']} (2: a filter)",
        SECCOMP_ADVICE,
    ),
    # EROFS alone: a user who is not root gets EACCES from a root that can be written to.
    Rule(
        "read-only root",
        lambda f: f["root"] == "EROFS",
        lambda f: f"writing below /usr: {f['root']}",
    ),
    Rule(
        "read-only /proc/sys",
        lambda f: f["sysctl"] == "EROFS",
        lambda f: f"writing kernel.hostname: {f['sysctl']}",
    ),
    Rule(
        "no network",
        lambda f: (
            f["interfaces"] == ["lo"]
            and f["metadata"] in UNREACHABLE
            and f["internet"] in UNREACHABLE
        ),
        lambda f: f"interfaces: {' '.join(f['interfaces'])}; 169.254.169.254: {f['metadata']}",
    ),
    Rule("no vsock", *_denied("vsock", "socket(AF_VSOCK)"), SECCOMP_ADVICE),
    Rule("no packet sockets", *_denied("packet", "socket(AF_PACKET)"), SECCOMP_ADVICE),
    Rule("no audit netlink", *_denied("netlink", "socket(AF_NETLINK, AUDIT)"), SECCOMP_ADVICE),
    Rule("no io_uring", *_denied("io_uring", "io_uring_setup"), SECCOMP_ADVICE),
    Rule("no bpf", *_denied("bpf", "bpf(BPF_PROG_LOAD)"), SECCOMP_ADVICE),
    Rule("no kernel keys", *_denied("keyctl", "keyctl"), SECCOMP_ADVICE),
    Rule("no ptrace", *_denied("ptrace", "ptrace(TRACEME)"), SECCOMP_ADVICE),
    Rule("no user namespaces", *_denied("userns", "unshare(NEWUSER)"), SECCOMP_ADVICE),
    Rule(
        "no 32-bit calls",
        lambda f: (
            f["compat"].startswith(("signal", "not on"))
            or f["compat"].removeprefix("returned ").startswith("-")
        ),
        lambda f: f"getpid by int 0x80: {f['compat']}",
        SECCOMP_ADVICE,
    ),
    Rule(
        "masked /proc",
        lambda f: f["kcore"] in (0, *DENIED, "ENOENT") and f["cmdline"] in (0, *DENIED, "ENOENT"),
        lambda f: f"/proc/kcore: {f['kcore']}, /proc/cmdline: {f['cmdline']}",
    ),
    Rule(
        "memory",
        lambda f: f["memory"] == "signal 9",
        lambda f: f"{LIMITS.memory_bytes // MIB} MiB allowed, twice as much tried: {f['memory']}",
        CGROUP_ADVICE,
    ),
    Rule(
        "processes",
        lambda f: f["pids"]["answer"] == "EAGAIN" and f["pids"]["processes"] <= LIMITS.pids,
        lambda f: f"{LIMITS.pids} allowed, {f['pids']['processes']} had: {f['pids']['answer']}",
        CGROUP_ADVICE,
    ),
    Rule(
        "processor",
        # Twice the quota: bandwidth is given out in slices, which short measurements see. And the
        # kernel's own figure where it can be read: on a busy machine nobody gets much.
        lambda f: _cpu_share(f) <= 2 * LIMITS.cpus and f["quota"] in (None, LIMITS.cpus),
        lambda f: f"{LIMITS.cpus:g} allowed, two processes spinning got {_cpu_share(f):.2f}",
        CGROUP_ADVICE,
    ),
    Rule(
        "size of /tmp",
        lambda f: f["tmp"]["answer"] == "ENOSPC" and f["tmp"]["bytes"] <= LIMITS.tmp_bytes,
        lambda f: (
            f"{LIMITS.tmp_bytes} bytes allowed, {f['tmp']['bytes']} fit: {f['tmp']['answer']}"
        ),
    ),
    Rule(
        "open files",
        lambda f: f["open_files"] == LIMITS.open_files,
        lambda f: f"the hard limit is {f['open_files']}",
    ),
    Rule("no core files", lambda f: f["core"] == 0, lambda f: f"the hard limit is {f['core']}"),
)


def _storage_quota(api: docker.APIClient) -> Capability:
    """Whether the engine can bound a container's own writable layer."""
    name = "storage_opt"
    advice = "not needed: the root is read-only, and every writable place has its own limit"
    body = {
        "Image": BASE_IMAGE,
        "Cmd": ["true"],
        "HostConfig": {"StorageOpt": {"size": "64m"}, "NetworkMode": "none"},
        "Labels": Owner.current().labels(deadline_s=60, kind="probe"),
    }
    try:
        body["Image"] = resolve_image(api, BASE_IMAGE).id
        created = api.create_container_from_config(body)  # type: ignore[no-untyped-call]
    except APIError as error:
        said = str(error.explanation or error)[:200]
        return Capability(name, "weaker", f"the engine refused it: {said}", advice)
    except (SandboxedToolsError, DockerException, RequestException, OSError) as error:
        return Capability(name, "unknown", f"could not be tried: {str(error)[:200]}")
    api.remove_container(created["Id"], force=True, v=True)
    return Capability(name, "enforced", "the engine accepted a size for a container's root")


def _from_the_engine(engine: Engine) -> Iterator[Capability]:
    """What cannot be tried from inside: the engine's own account of how it is set up."""
    yield _stated(
        "cgroup v2",
        engine.cgroup_version == "2",
        f"cgroup v{engine.cgroup_version}",
        "v1 holds every limit, but its counters end with the container; v2 is preferred",
    )
    yield _stated(
        "user namespace",
        engine.rootless or engine.userns_remap,
        "rootless" if engine.rootless else "remapped" if engine.userns_remap else "not remapped",
        "a rootless engine, or 'userns-remap' in daemon.json, puts one more wall around user 0",
    )
    has_module = any(
        o.startswith(("name=apparmor", "name=selinux")) for o in engine.security_options
    )
    yield _stated(
        "mandatory access control",
        has_module,
        "on" if has_module else "neither AppArmor nor SELinux",
        "AppArmor or SELinux would stand behind the seccomp profile",
    )
    kernel = "runsc" if "runsc" in engine.runtimes else "kata" if "kata" in engine.runtimes else ""
    yield _stated(
        "kernel of its own",
        bool(kernel),
        f"runtimes: {' '.join(engine.runtimes)}",
        "with gVisor (runsc) installed, '--runtime runsc' keeps calls off the host's kernel",
    )
    yield _stated(
        "local engine",
        engine.local,
        "shares this machine's kernel and files" if engine.local else "elsewhere, or in a VM",
        "workspaces are sent there as copies, and what was changed in them comes back",
    )


def _stated(name: str, is_there: bool, evidence: str, advice: str) -> Capability:
    if is_there:
        return Capability(name, "enforced", evidence)
    return Capability(name, "weaker", evidence, advice)


def _view(views: ViewProvider | None) -> Capability:
    name = "copy-on-write workspace"
    if views is None:
        return Capability(name, "unknown", "no provider of views was given")
    with tempfile.TemporaryDirectory(prefix="sandboxed-tools-probe-") as folder:
        try:
            view = views.open(WorkspaceMount(Path(folder).resolve()), choose_user())
        except SandboxedToolsError as error:
            return Capability(name, "missing", str(error), "calls with a workspace are refused")
        try:
            kind = view.kind
        finally:
            view.close()
    if kind == "overlay":
        return Capability(name, "enforced", "an overlay: made at once, whatever its size")
    return Capability(name, "weaker", f"{kind}: takes time and space with the workspace's size")
