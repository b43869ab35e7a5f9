"""An engine behind SSH. What stands in for ``ssh`` runs the same command on this very machine."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import docker
import psutil
import pytest
import requests
from tests.sandbox.docker.running import ENV, eventually

from sandboxed_tools.errors import EngineFault
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker.backend import DockerSandbox
from sandboxed_tools.sandbox.docker.cleanup import gc
from sandboxed_tools.sandbox.docker.endpoints import Endpoint
from sandboxed_tools.sandbox.docker.engine import Engine, Trial, ask_engine
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.state import installation_id

pytestmark = pytest.mark.engine

STAND_IN = """#!{python} -S
import os, sys
words = sys.argv[1:]
place = words.index("--")
assert words[:place] == ["-T", "-o", "BatchMode=yes", "-l", "me", "-p", "2222"], words
host, *command = words[place + 1:]
assert host == "far.example" and command == ["docker", "system", "dial-stdio"], words
os.environ.pop("DOCKER_HOST", None)
{before}
import select, socket
engine = socket.socket(socket.AF_UNIX)
engine.connect({target!r})
poll = select.poll()
poll.register(0, select.POLLIN)
poll.register(engine, select.POLLIN)
while True:
    for fd, _ in poll.poll():
        if fd == 0:
            data = os.read(0, 65536)
            engine.sendall(data)
            if not data:
                engine.shutdown(socket.SHUT_WR)
                poll.unregister(0)
        else:
            data = engine.recv(65536)
            if not data:
                sys.exit()
            while data:
                data = data[os.write(1, data):]
"""


@pytest.fixture
def stand_in(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which ``ssh`` is found first."""
    folder = tmp_path / "bin"
    folder.mkdir()
    write(folder, engine)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    # Nothing of this goes through a proxy.
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    return folder


def write(folder: Path, engine: Engine, *, before: str = "") -> None:
    target = engine.endpoint.socket_path
    assert target is not None
    text = STAND_IN.format(python=sys.executable, before=before, target=target)
    (folder / "ssh").write_text(text)
    (folder / "ssh").chmod(0o755)


ENDPOINT = Endpoint("ssh://me@far.example:2222", source="a test", is_explicit=True)


@pytest.fixture
def far(stand_in: Path) -> Engine:
    found = ask_engine(ENDPOINT, timeout_s=60)
    assert isinstance(found, Engine), found
    return found


@pytest.fixture
def box(far: Engine) -> Iterator[DockerSandbox]:
    box = DockerSandbox(far)
    yield box
    box.close()
    assert processes() == []


def processes() -> list[psutil.Process]:
    """What stands in for ``ssh`` and belongs to this test."""
    children = psutil.Process().children(recursive=True)
    return [one for one in children if "far.example" in one.cmdline()]


@pytest.fixture
def spec(base_image: str) -> SandboxSpec:
    return SandboxSpec(base_image, limits=Limits.of(memory_bytes="64m"))


def test_calls_work_cold_and_warm_and_leave_no_process(
    box: DockerSandbox, spec: SandboxSpec, far: Engine
) -> None:
    assert not far.local
    command = Command(("sh", "-c", "wc -c; echo e >&2; exit 3"), env=ENV, stdin=b"x" * 1_000_000)
    for _ in range(3):
        result = anyio.run(box.run, spec, command)
        assert (result.exit_code, result.stdout, result.stderr) == (3, b"1000000\n", b"e\n")
        eventually(lambda: any(shelf.ready for shelf in box.status().shelves))


def test_connection_that_is_lost_is_a_fault_and_ends_the_command(
    box: DockerSandbox, spec: SandboxSpec, api: docker.APIClient
) -> None:
    def lose(*_: object) -> None:
        for process in processes():
            process.kill()

    async def main() -> None:
        await box.run(spec, Command(("sh", "-c", "echo; sleep 100"), env=ENV), lose)

    with pytest.raises(EngineFault):
        anyio.run(main)
    mine = {"label": f"sandboxed-tools.installation={installation_id()}", "status": "running"}
    eventually(lambda: not api.containers(filters=mine))


def test_death_of_the_client_ends_its_containers(
    stand_in: Path, base_image: str, api: docker.APIClient
) -> None:
    source = """
import anyio, os, sys
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker import DockerSandbox, find_engine
from sandboxed_tools.tool.command import Command
box = DockerSandbox(find_engine())
spec = SandboxSpec(sys.argv[1])
anyio.run(box.prewarm, spec, 1)
command = Command(("sh", "-c", "echo; sleep 1000"), env={"PATH": "/usr/bin:/bin"})
anyio.run(box.run, spec, command, lambda *_: os.write(1, b"up\\n"))
"""
    owner = subprocess.Popen(
        ["env", f"DOCKER_HOST={ENDPOINT.url}", sys.executable, "-c", source, base_image],
        stdout=subprocess.PIPE,
    )
    mine = [
        f"sandboxed-tools.installation={installation_id()}",
        f"sandboxed-tools.pid={owner.pid}",
    ]
    assert owner.stdout is not None
    with owner, owner.stdout:
        try:
            assert owner.stdout.readline() == b"up\n"
            assert api.containers(filters={"label": mine})
        finally:
            owner.send_signal(signal.SIGKILL)
            owner.wait(30)
    eventually(lambda: not api.containers(filters={"label": mine}))
    gc(api)  # one may have been created by then, and not started
    assert not api.containers(all=True, filters={"label": mine})


def test_engine_that_never_answers_keeps_no_deadline_from_passing(
    far: Engine, stand_in: Path, engine: Engine
) -> None:
    write(stand_in, engine, before="import time; time.sleep(3600)")
    silent = ask_engine(ENDPOINT, timeout_s=1)
    assert isinstance(silent, Trial)
    api = far.api(timeout_s=0.5)
    try:
        with pytest.raises(requests.exceptions.RequestException):
            api.ping()
    finally:
        api.close()
    eventually(lambda: not processes())


def test_machine_without_ssh_is_a_typed_trial(
    far: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing here"))
    assert isinstance(ask_engine(ENDPOINT, timeout_s=30), Trial)
