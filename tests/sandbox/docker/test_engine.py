"""Finding an engine: the order, the explicit choice, and sockets that lie, hang or refuse."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from sandboxed_tools.errors import ConfigurationError, EngineForbidden, EngineNotFound
from sandboxed_tools.sandbox.docker.endpoints import Endpoint, candidate_endpoints
from sandboxed_tools.sandbox.docker.engine import Engine, Trial, ask_engine, find_engine

VERSION = {
    "Version": "28.5.2",
    "ApiVersion": "1.51",
    "KernelVersion": os.uname().release,
    "Components": [{"Name": "Engine", "Version": "28.5.2"}],
}
INFO = {"OperatingSystem": "Debian", "CgroupVersion": "2", "SecurityOptions": ["name=seccomp"]}


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name (at most 107 bytes, unix(7))."""
    folder = Path(tempfile.mkdtemp(prefix="s-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@contextmanager
def engine_that_says(path: Path, *, version: Any, info: Any) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(version if self.path.endswith("/version") else info).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...

        def address_string(self) -> str:
            return "client"

    path.parent.mkdir(parents=True, exist_ok=True)
    with _Server(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"unix://{path}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(8)
        yield server


@contextmanager
def as_an_ordinary_user() -> Iterator[None]:
    """Root may open any socket, so drop to another user for the moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def write_context(config: Path, name: str, host: object) -> None:
    folder = config / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest()
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text(
        json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host}}})
    )


@pytest.mark.engine
def test_the_real_engine_is_found_and_described(engine: Engine) -> None:
    assert engine.version
    assert engine.kind in {"docker", "podman"}
    assert engine.facts["architecture"]
    client = engine.api(timeout_s=5)
    try:
        assert client.ping() is True
    finally:
        client.close()


def test_docker_host_stands_alone() -> None:
    (only,) = candidate_endpoints({"DOCKER_HOST": "unix:///nowhere/x.sock", "HOME": "/root"})
    assert only.is_explicit
    assert only.socket_path == "/nowhere/x.sock"


def test_an_explicit_engine_that_is_gone_is_never_replaced_by_another() -> None:
    with pytest.raises(EngineNotFound, match="sandboxed-tools setup") as caught:
        find_engine({"DOCKER_HOST": "unix:///nowhere/x.sock"}, timeout_s=1)
    assert "/nowhere/x.sock" in str(caught.value.operator_detail)
    assert "/var/run/docker.sock" not in str(caught.value.operator_detail)


@pytest.mark.parametrize("host", ["unix://", "ftp://a", "tcp://", "://", "unix://a\0b"])
def test_an_unusable_docker_host_is_a_configuration_error(host: str) -> None:
    with pytest.raises(ConfigurationError, match="DOCKER_HOST"):
        candidate_endpoints({"DOCKER_HOST": host})


def test_a_tcp_engine_with_tls_takes_its_certificates_from_the_cert_path(tmp_path: Path) -> None:
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).write_text("x")
    (only,) = candidate_endpoints(
        {
            "DOCKER_HOST": "tcp://engine:2376",
            "DOCKER_TLS_VERIFY": "1",
            "DOCKER_CERT_PATH": str(tmp_path),
        }
    )
    assert only.tls is not None
    assert only.tls.verify
    assert only.tls.ca == str(tmp_path / "ca.pem")
    assert only.tls.key == str(tmp_path / "key.pem")


def test_a_named_context_is_read_from_its_meta_file(tmp_path: Path) -> None:
    write_context(tmp_path, "büro", "tcp://10.0.0.9:2375")
    (only,) = candidate_endpoints({"DOCKER_CONTEXT": "büro", "DOCKER_CONFIG": str(tmp_path)})
    assert only.url == "tcp://10.0.0.9:2375"
    assert only.is_explicit


def test_the_current_context_comes_before_the_sockets(tmp_path: Path) -> None:
    write_context(tmp_path, "mine", "unix:///run/mine.sock")
    (tmp_path / "config.json").write_text('{"currentContext": "mine"}')
    found = candidate_endpoints({"DOCKER_CONFIG": str(tmp_path), "HOME": "/home/x"})
    assert found[0].url == "unix:///run/mine.sock"
    assert found[1].url == "unix:///var/run/docker.sock"


@pytest.mark.parametrize("content", ["", "[]", "{", '{"currentContext": 3}', "\0", "[" * 100_000])
def test_a_broken_docker_configuration_falls_through_to_the_sockets(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / "config.json").write_text(content)
    found = candidate_endpoints({"DOCKER_CONFIG": str(tmp_path)})
    assert found[0].url == "unix:///var/run/docker.sock"


def test_a_context_that_does_not_exist_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="docker context ls"):
        candidate_endpoints({"DOCKER_CONTEXT": "../../etc", "DOCKER_CONFIG": str(tmp_path)})


def test_rootless_desktop_and_podman_sockets_are_candidates_too() -> None:
    urls = [
        e.url for e in candidate_endpoints({"XDG_RUNTIME_DIR": "/run/user/7", "HOME": "/home/x"})
    ]
    for path in (
        "/run/user/7/docker.sock",
        "/home/x/.docker/desktop/docker.sock",
        "/run/user/7/podman/podman.sock",
        "/run/podman/podman.sock",
    ):
        assert f"unix://{path}" in urls


def test_a_wedged_socket_does_not_hang(short_folder: Path) -> None:
    path = short_folder / "x.sock"
    with listening(path):
        with pytest.raises(EngineNotFound) as caught:
            find_engine({"DOCKER_HOST": f"unix://{path}"}, timeout_s=0.3)
    assert caught.value.operator_detail is not None


def test_an_engine_that_drips_bytes_for_ever_does_not_hang(short_folder: Path) -> None:
    path = short_folder / "x.sock"
    stop = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        probe = connection
        with connection:
            connection, _ = server.accept()
            probe.close()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nX-A: ")
                while not stop.wait(0.05):
                    try:
                        connection.sendall(b"a")
                    except OSError:
                        return

    with listening(path) as server:
        thread = threading.Thread(target=drip, args=(server,))
        thread.start()
        try:
            found = ask_engine(Endpoint(f"unix://{path}", source="test"), timeout_s=0.3)
        finally:
            stop.set()
            thread.join(timeout=10)
    assert isinstance(found, Trial)
    assert found.code == "silent"


def test_a_socket_without_permission_is_forbidden_and_says_what_to_do(short_folder: Path) -> None:
    path = short_folder / "x.sock"
    short_folder.chmod(0o755)
    with listening(path):
        path.chmod(0)
        with as_an_ordinary_user():
            with pytest.raises(EngineForbidden, match="usermod"):
                find_engine({"DOCKER_HOST": f"unix://{path}"}, timeout_s=1)


def test_a_stale_socket_is_told_apart_from_none(short_folder: Path) -> None:
    path = short_folder / "x.sock"
    with listening(path):
        pass
    found = ask_engine(Endpoint(f"unix://{path}", source="test"), timeout_s=1)
    assert isinstance(found, Trial)
    assert found.code == "refused"


def test_a_file_in_the_place_of_the_socket_is_a_fault(short_folder: Path) -> None:
    (short_folder / "x.sock").write_text("")
    found = ask_engine(Endpoint(f"unix://{short_folder}/x.sock", source="test"), timeout_s=1)
    assert isinstance(found, Trial)
    assert found.code == "fault"


def test_another_users_socket_is_not_used_unless_it_was_asked_for(short_folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make another user's socket")
    runtime = short_folder
    with engine_that_says(runtime / "docker.sock", version=VERSION, info=INFO) as url:
        os.chown(runtime / "docker.sock", 12345, 12345)
        implicit = ask_engine(Endpoint(url, source="test"), timeout_s=30)
        explicit = ask_engine(Endpoint(url, source="test", is_explicit=True), timeout_s=30)
    assert isinstance(implicit, Trial)
    assert "another user" in implicit.detail
    assert isinstance(explicit, Engine)


@pytest.mark.parametrize(
    ("version", "info", "expected"),
    [
        (VERSION, INFO, {"kind": "docker", "local": True, "rootless": False}),
        (
            VERSION | {"Components": [{"Name": "Podman Engine", "Version": "5.0"}]},
            INFO,
            {"kind": "podman"},
        ),
        (VERSION, INFO | {"OperatingSystem": "Docker Desktop"}, {"desktop": True, "local": False}),
        (VERSION | {"KernelVersion": "6.6.1-elsewhere"}, INFO, {"local": False}),
        (VERSION, INFO | {"SecurityOptions": ["name=rootless"]}, {"rootless": True}),
        (
            VERSION,
            INFO | {"SecurityOptions": ["name=seccomp,profile=default", "name=userns"]},
            {"userns_remap": True},
        ),
        (VERSION | {"ApiVersion": "1.41"}, INFO, {"api_version": "1.41"}),
    ],
)
def test_what_an_engine_says_is_understood(
    short_folder: Path, version: Any, info: Any, expected: dict[str, object]
) -> None:
    with engine_that_says(short_folder / "x.sock", version=version, info=info) as url:
        found = find_engine({"DOCKER_HOST": url}, timeout_s=30)
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    "version", [[], {}, "x", {"ApiVersion": "\x1b[2J"}, {"ApiVersion": None}, {"ApiVersion": "1"}]
)
def test_something_else_behind_the_socket_is_no_engine(short_folder: Path, version: Any) -> None:
    with engine_that_says(short_folder / "x.sock", version=version, info={}) as url:
        with pytest.raises(EngineNotFound) as caught:
            find_engine({"DOCKER_HOST": url}, timeout_s=30)
    assert "\x1b" not in str(caught.value.operator_detail)


def test_proxies_of_the_users_docker_configuration_never_reach_a_container(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"proxies": {"default": {"httpProxy": "http://user:secret@proxy:1"}}}
    (short_folder / "config.json").write_text(json.dumps(config))
    monkeypatch.setenv("DOCKER_CONFIG", str(short_folder))
    with engine_that_says(short_folder / "x.sock", version=VERSION, info=INFO) as url:
        client = find_engine({"DOCKER_HOST": url}, timeout_s=30).api()
        try:
            assert not client._proxy_configs  # type: ignore[attr-defined]
        finally:
            client.close()


@pytest.mark.parametrize(
    ("component", "shown"),
    [
        (
            {"Name": "runc", "Version": "1.1.5", "Details": {"GitCommit": "1.1.5-1+deb12u1"}},
            "1.1.5-1+deb12u1",
        ),
        ({"Name": "runc", "Version": "1.3.0", "Details": {"GitCommit": "v1.3.0-0-g4ca"}}, "1.3.0"),
        ({"Name": "runc", "Version": "1.3.0", "Details": None}, "1.3.0"),
    ],
)
def test_the_distributions_revision_is_part_of_a_components_version(
    short_folder: Path, component: Any, shown: str
) -> None:
    version = VERSION | {"Components": [component]}
    with engine_that_says(short_folder / "x.sock", version=version, info=INFO) as url:
        assert find_engine({"DOCKER_HOST": url}, timeout_s=30).facts["runc"] == shown
