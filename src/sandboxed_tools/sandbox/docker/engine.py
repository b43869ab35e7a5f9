"""The container engine: which one answers here, and how to talk to it.

Every question to an engine that has not proved itself has a deadline over the whole exchange: a
wedged socket accepts a connection and never answers, and one that sends a byte now and then would
defeat a read timeout alone.
"""

from __future__ import annotations

import os
import queue
import socket
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import docker
from docker.constants import DEFAULT_DOCKER_API_VERSION
from docker.errors import DockerException
from docker.tls import TLSConfig
from docker.utils.proxy import ProxyConfig
from requests.exceptions import RequestException

from sandboxed_tools.errors import EngineForbidden, EngineNotFound
from sandboxed_tools.sandbox.docker.endpoints import Endpoint, candidate_endpoints
from sandboxed_tools.sandbox.docker.ssh_adapter import SshAdapter
from sandboxed_tools.tool.foreign_text import for_terminal

__all__ = ["Engine", "NoEngineAnswers", "Trial", "ask_engine", "find_engine"]

PROBE_TIMEOUT_S = 5.0

NEXT_STEP = (
    "install and start an engine with 'sandboxed-tools setup' (or 'make setup'), "
    "or point DOCKER_HOST at one that runs"
)


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that answered, with what it said about itself.

    Attributes:
        endpoint: address, certificates, and how it was found.
        local: it shares this machine's kernel and files, as far as can be told from its answers.
            Without that, bind mounts would show another machine's files.
        desktop: Docker Desktop, whose containers live in a virtual machine.
        rootless: the engine runs without root; ``userns_remap``: containers' root is not root.
        facts: what it said, in words, for showing.
    """

    endpoint: Endpoint
    kind: Literal["docker", "podman"]
    version: str
    api_version: str
    local: bool
    rootless: bool
    desktop: bool
    userns_remap: bool
    cgroup_version: str
    runtimes: tuple[str, ...]
    security_options: tuple[str, ...]
    facts: dict[str, str] = field(hash=False, compare=False)

    @property
    def base_url(self) -> str:
        return self.endpoint.url

    @property
    def source(self) -> str:
        return self.endpoint.source

    def api(self, timeout_s: float = 60.0) -> docker.APIClient:
        """A new client; each thread needs its own. ``timeout_s`` bounds every single read.

        Close it after use. It contacts nothing until it is asked something.
        """
        return _client(self.endpoint, version=self.api_version, timeout_s=timeout_s)


@dataclass(frozen=True, slots=True)
class Trial:
    """One place that was tried in vain. ``code``: absent, refused, forbidden, silent, fault."""

    endpoint: Endpoint
    code: Literal["absent", "refused", "forbidden", "silent", "fault"]
    detail: str

    def __str__(self) -> str:
        return for_terminal(
            f"{self.endpoint.url} ({self.endpoint.source}): {self.detail}", one_line=True
        )


class NoEngineAnswers(EngineNotFound):
    """None of the places that were tried answered; ``trials`` says what each of them did."""

    def __init__(self, message: str, *, trials: tuple[Trial, ...]) -> None:
        super().__init__(message, operator_detail="; ".join(map(str, trials)))
        self.trials = trials


def find_engine(
    environ: Mapping[str, str] = os.environ, *, timeout_s: float = PROBE_TIMEOUT_S
) -> Engine:
    """The first engine that answers. Blocks for at most ``timeout_s`` seconds at each place.

    An address given by ``DOCKER_HOST`` or ``DOCKER_CONTEXT`` is the only one tried: falling back
    from the engine that somebody asked for to another one would surprise.

    Raises:
        NoEngineAnswers: an ``EngineNotFound`` that says what was tried and what to do.
        EngineForbidden: a socket is there, and this user may not open it.
        ConfigurationError: the address itself is unusable.
    """
    trials: list[Trial] = []
    for endpoint in candidate_endpoints(environ):
        found = ask_engine(endpoint, timeout_s=timeout_s)
        if isinstance(found, Engine):
            return found
        trials.append(found)
    for trial in trials:
        if trial.code == "forbidden":
            raise EngineForbidden(
                "a container engine is there, and this user may not talk to it: add the user to "
                "the group of the socket (usermod -aG docker USER, then log in again; that "
                "group is equal to root), or use a rootless engine",
                operator_detail="; ".join(map(str, trials)),
            )
    raise NoEngineAnswers(f"no container engine answers: {NEXT_STEP}", trials=tuple(trials))


def ask_engine(endpoint: Endpoint, *, timeout_s: float = PROBE_TIMEOUT_S) -> Engine | Trial:
    """Ask one endpoint who it is; the whole exchange ends within about ``timeout_s`` seconds."""
    if endpoint.socket_path is not None:
        refusal = _try_socket(endpoint, endpoint.socket_path, timeout_s=timeout_s)
        if refusal is not None:
            return refusal
    answers: queue.SimpleQueue[Engine | Trial] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(_describe(endpoint, timeout_s=timeout_s))
        except (DockerException, RequestException, OSError, ValueError, TypeError) as error:
            answers.put(Trial(endpoint, "fault", str(error)[:500] or type(error).__name__))

    # A daemon thread: an engine that drips bytes can hold it, but not us.
    threading.Thread(target=ask, name="sandboxed-tools-engine-probe", daemon=True).start()
    try:
        return answers.get(timeout=timeout_s + 0.5)
    except queue.Empty:
        return Trial(endpoint, "silent", f"accepted the connection, no answer in {timeout_s:g} s")


def _try_socket(endpoint: Endpoint, path: str, *, timeout_s: float) -> Trial | None:
    try:
        status = os.stat(path)
    except PermissionError:
        return Trial(endpoint, "forbidden", "permission denied")
    except (OSError, ValueError):
        return Trial(endpoint, "absent", "not there")
    if not stat.S_ISSOCK(status.st_mode):
        return Trial(endpoint, "fault", "is not a socket")
    # After `su`, XDG_RUNTIME_DIR may still name another user's folder: their socket would get
    # our commands and our mounts.
    if not endpoint.is_explicit and status.st_uid not in {0, os.geteuid()}:
        return Trial(endpoint, "fault", f"belongs to another user (uid {status.st_uid})")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(timeout_s)
        try:
            probe.connect(path)
        except PermissionError:
            return Trial(endpoint, "forbidden", "permission denied")
        except ConnectionRefusedError:
            return Trial(endpoint, "refused", "nobody listens on it (a stale socket)")
        except TimeoutError:
            return Trial(endpoint, "silent", f"no connection in {timeout_s:g} s")
        except OSError as error:
            return Trial(endpoint, "fault", error.strerror or "cannot be connected to")
    return None


def _client(endpoint: Endpoint, *, version: str, timeout_s: float) -> docker.APIClient:
    tls: TLSConfig | bool = False
    if endpoint.tls is not None:
        files = endpoint.tls
        pair = (files.cert, files.key) if files.cert and files.key else None
        tls = TLSConfig(client_cert=pair, ca_cert=files.ca, verify=files.verify)
    is_ssh = endpoint.url.startswith("ssh://")
    api = docker.APIClient(
        base_url="http://engine:80" if is_ssh else endpoint.url,
        version=version,
        timeout=timeout_s,  # type: ignore[arg-type]  # requests takes fractions of a second
        tls=tls,
    )
    if is_ssh:
        api.mount(api.base_url, SshAdapter(endpoint.url))
    # docker-py copies the proxies of ~/.docker/config.json, credentials included, into the
    # environment of every container that it creates.
    api._proxy_configs = ProxyConfig()  # type: ignore[attr-defined]
    return api


def _describe(endpoint: Endpoint, *, timeout_s: float) -> Engine | Trial:
    api = _client(endpoint, version=DEFAULT_DOCKER_API_VERSION, timeout_s=timeout_s)
    try:
        version: dict[str, Any] = api.version(api_version=False)
        api_version = _older(str(version["ApiVersion"]), DEFAULT_DOCKER_API_VERSION)
    except KeyError:
        return Trial(endpoint, "fault", "answers, but not as a container engine does")
    finally:
        api.close()
    api = _client(endpoint, version=api_version, timeout_s=timeout_s)
    try:
        info: dict[str, Any] = api.info()
    finally:
        api.close()
    return _engine(endpoint, version, info, api_version=api_version)


def _older(left: str, right: str) -> str:
    return min(left, right, key=lambda text: tuple(int(part) for part in text.split(".")))


def _build(component: Mapping[str, Any]) -> str:
    """A component's version, with the distribution's revision where the engine states it."""
    upstream = str(component.get("Version", ""))
    packaged = str((component.get("Details") or {}).get("GitCommit", ""))
    return packaged if upstream and packaged.startswith(f"{upstream}-") else upstream


def _engine(
    endpoint: Endpoint, version: dict[str, Any], info: dict[str, Any], *, api_version: str
) -> Engine:
    components = {c.get("Name"): _build(c) for c in version.get("Components") or []}
    security = tuple(str(option) for option in info.get("SecurityOptions") or ())
    names = {part for option in security for part in option.split(",")}
    desktop = "Docker Desktop" in str(info.get("OperatingSystem"))
    kernel = str(version.get("KernelVersion") or info.get("KernelVersion") or "")
    same_kernel = not kernel or kernel == os.uname().release
    runtimes = tuple(sorted(info.get("Runtimes") or ()))
    facts = {
        "engine": str(version.get("Version", "")),
        "containerd": str(components.get("containerd", "")),
        "runc": str(components.get("runc", "")),
        "operating system": str(info.get("OperatingSystem", "")),
        "kernel": kernel,
        "architecture": str(info.get("Architecture", "")),
        "storage driver": str(info.get("Driver", "")),
        "data root": str(info.get("DockerRootDir") or ""),
        "cgroup": f"v{info.get('CgroupVersion', '?')} ({info.get('CgroupDriver', '?')})",
        "processors": str(info.get("NCPU", "")),
        "memory_bytes": str(info.get("MemTotal", "")),
        "runtimes": " ".join(runtimes),
        "security options": " ".join(security),
        "live restore": str(bool(info.get("LiveRestoreEnabled"))).lower(),
        "found by": endpoint.source,
    }
    return Engine(
        endpoint=endpoint,
        kind="podman" if "Podman Engine" in components else "docker",
        version=facts["engine"],
        api_version=api_version,
        local=endpoint.socket_path is not None and not desktop and same_kernel,
        rootless="name=rootless" in names,
        desktop=desktop,
        userns_remap="name=userns" in names,
        cgroup_version=str(info.get("CgroupVersion") or "1"),
        runtimes=runtimes,
        security_options=security,
        facts={key: value for key, value in facts.items() if value},
    )
