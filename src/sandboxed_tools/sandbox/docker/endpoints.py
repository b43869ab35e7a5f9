"""Where a container engine may be listening: every place that the field's own tools look at.

The order is the Docker CLI's (``DOCKER_HOST``, then ``DOCKER_CONTEXT``, then the current context of
``config.json``), followed by the sockets that packages create: the system's, rootless Docker's,
Docker Desktop's and Podman's. Nothing is contacted here.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandboxed_tools.errors import ConfigurationError

__all__ = ["Endpoint", "TlsFiles", "candidate_endpoints"]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Certificates for an engine behind TLS; ``verify`` is off only where a context says so."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verify: bool = True


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One place to try. ``source`` says in words where the address came from.

    ``is_explicit``: the operator named it for this process, so nothing else may be used instead.
    """

    url: str
    source: str
    is_explicit: bool = False
    tls: TlsFiles | None = None

    @property
    def socket_path(self) -> str | None:
        """The path of a Unix socket, or ``None`` for any other transport."""
        return self.url.removeprefix("unix://") if self.url.startswith("unix://") else None


def candidate_endpoints(environ: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """Every endpoint worth trying, in order. An explicit one stands alone.

    Raises:
        ConfigurationError: ``DOCKER_HOST`` or ``DOCKER_CONTEXT`` names something unusable.
    """
    if host := environ.get("DOCKER_HOST", "").strip():
        return (_from_docker_host(host, environ),)
    if name := environ.get("DOCKER_CONTEXT", "").strip():
        if name != "default":
            return (_from_context(name, environ, source="DOCKER_CONTEXT", is_explicit=True),)
        return _sockets(environ)
    current = _current_context(environ)
    if current and current != "default":
        try:
            saved = _from_context(current, environ, source="the current docker context")
        except ConfigurationError:
            return _sockets(environ)
        return (saved, *(e for e in _sockets(environ) if e.url != saved.url))
    return _sockets(environ)


def _from_docker_host(host: str, environ: Mapping[str, str]) -> Endpoint:
    url = _normalized(host, source="DOCKER_HOST")
    if url.startswith(("unix://", "ssh://")):
        return Endpoint(url, source="DOCKER_HOST", is_explicit=True)
    tls = None
    # The CLI's rule: set to anything but the empty string means "on".
    if environ.get("DOCKER_TLS_VERIFY", "") or environ.get("DOCKER_TLS", ""):
        folder = Path(environ.get("DOCKER_CERT_PATH") or _config_folder(environ))
        tls = _tls_files(folder, verify=bool(environ.get("DOCKER_TLS_VERIFY", "")))
    return Endpoint(url, source="DOCKER_HOST", is_explicit=True, tls=tls)


def _normalized(host: str, *, source: str) -> str:
    if "://" not in host:
        host = f"unix://{host}" if host.startswith("/") else f"tcp://{host}"
    scheme, _, rest = host.partition("://")
    if scheme not in {"unix", "tcp", "http", "https", "ssh"} or not rest or "\0" in rest:
        raise ConfigurationError(
            f"{source} is not an engine address: expected unix://, tcp:// or ssh://",
            operator_detail=f"{source}={host!r}",
        )
    return host


def _config_folder(environ: Mapping[str, str]) -> Path:
    if folder := environ.get("DOCKER_CONFIG", ""):
        return Path(folder)
    return Path(environ.get("HOME") or "/root") / ".docker"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _current_context(environ: Mapping[str, str]) -> str:
    name = _read_json(_config_folder(environ) / "config.json").get("currentContext")
    return name if isinstance(name, str) else ""


def _from_context(
    name: str, environ: Mapping[str, str], *, source: str, is_explicit: bool = False
) -> Endpoint:
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
    contexts = _config_folder(environ) / "contexts"
    endpoints = _read_json(contexts / "meta" / digest / "meta.json").get("Endpoints")
    docker = endpoints.get("docker") if isinstance(endpoints, dict) else None
    host = docker.get("Host") if isinstance(docker, dict) else None
    if not isinstance(host, str) or not host:
        raise ConfigurationError(
            f"{source} names a docker context that does not exist: see 'docker context ls'",
            operator_detail=f"context {name!r} below {contexts}",
        )
    url = _normalized(host, source=f"docker context {name}")
    verify = not (isinstance(docker, dict) and docker.get("SkipTLSVerify") is True)
    folder = contexts / "tls" / digest / "docker"
    tls = _tls_files(folder, verify=verify) if folder.is_dir() else None
    return Endpoint(url, source=f"{source} ({name})", is_explicit=is_explicit, tls=tls)


def _tls_files(folder: Path, *, verify: bool) -> TlsFiles:
    def present(name: str) -> str | None:
        return str(folder / name) if (folder / name).is_file() else None

    return TlsFiles(
        ca=present("ca.pem"), cert=present("cert.pem"), key=present("key.pem"), verify=verify
    )


def _sockets(environ: Mapping[str, str]) -> tuple[Endpoint, ...]:
    runtime = environ.get("XDG_RUNTIME_DIR", "") or f"/run/user/{os.geteuid()}"
    home = environ.get("HOME", "")
    places = [("/var/run/docker.sock", "the system's docker socket")]
    places.append((f"{runtime}/docker.sock", "rootless docker's socket"))
    if home:
        places.append((f"{home}/.docker/desktop/docker.sock", "Docker Desktop's socket"))
        places.append((f"{home}/.docker/run/docker.sock", "Docker Desktop's socket"))
    places.append((f"{runtime}/podman/podman.sock", "the user's podman socket"))
    places.append(("/run/podman/podman.sock", "the system's podman socket"))
    return tuple(Endpoint(f"unix://{path}", source=source) for path, source in places)
