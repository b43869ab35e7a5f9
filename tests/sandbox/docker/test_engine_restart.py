"""A real engine that is stopped and started in the middle: typed errors, then service again."""

from __future__ import annotations

import signal
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import anyio
import docker
import psutil
import pytest
from tests.sandbox.docker.running import ENV, eventually
from tests.sandbox.docker.second_engine import MARKS, SecondEngine, second_engine

from sandboxed_tools.errors import EngineFault, SandboxUnavailable
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker import backend
from sandboxed_tools.sandbox.docker.backend import DockerSandbox
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.result import ExecResult

pytestmark = MARKS


@pytest.fixture
def second(base_image: str, api: docker.APIClient) -> Iterator[SecondEngine]:
    with second_engine(api, base_image) as engine:
        yield engine


def call(box: DockerSandbox, spec: SandboxSpec, text: str) -> ExecResult:
    return anyio.run(box.run, spec, Command(("bash", "-c", text), env=ENV))


def test_engine_that_is_stopped_and_started_in_the_middle_serves_again(
    second: SecondEngine, base_image: str
) -> None:
    found = second.found()
    assert isinstance(found, Engine)
    box = DockerSandbox(found)
    spec = SandboxSpec(base_image, limits=Limits.of(memory_bytes="64m"))
    errors: list[BaseException] = []
    running = threading.Event()

    def long_call() -> None:
        async def main() -> None:
            command = Command(("bash", "-c", "echo; sleep 300"), env=ENV)
            await box.run(spec, command, lambda *_: running.set())

        try:
            anyio.run(main)
        except SandboxUnavailable as error:
            errors.append(error)

    try:
        assert anyio.run(box.prewarm, spec, 2) == 2
        thread = threading.Thread(target=long_call)
        thread.start()
        assert running.wait(30)
        second.end()
        thread.join(60)
        assert [type(error) for error in errors] == [EngineFault]
        with pytest.raises(SandboxUnavailable):
            call(box, spec, "true")
        second.start()
        assert call(box, spec, "echo again").stdout == b"again\n"
        eventually(lambda: sum(shelf.ready for shelf in box.status().shelves) >= 2)
        warm = call(box, spec, "echo warm again")
        assert warm.stdout == b"warm again\n"
    finally:
        box.close()
    client = docker.APIClient(base_url=second.url)
    try:
        assert client.containers(all=True) == []
    finally:
        client.close()


def processes(text: str) -> list[psutil.Process]:
    return [p for p in psutil.process_iter(["cmdline"]) if text in (p.info["cmdline"] or [])]


def test_engine_that_leaves_its_containers_running_keeps_no_command_running(
    base_image: str, api: docker.APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Stopped with live restore, or killed, it closes no container's input: the heartbeat is missed.
    monkeypatch.setattr(backend, "LOCAL_HEARTBEAT_S", 3.0)
    with second_engine(api, base_image, options=("--live-restore",)) as second:
        found = second.found()
        assert isinstance(found, Engine)
        assert Path(found.facts["data root"]).is_dir()
        assert found.facts["data root"] != "/var/lib/docker"
        box = DockerSandbox(found)
        spec = SandboxSpec(base_image, limits=Limits.of(memory_bytes="64m"))
        try:
            for how in (signal.SIGTERM, signal.SIGKILL):
                ended(box, spec, second, how)
                assert call(box, spec, "echo again").stdout == b"again\n"
                eventually(lambda: sum(shelf.ready for shelf in box.status().shelves) >= 2)
        finally:
            box.close()
        client = docker.APIClient(base_url=second.url)
        try:
            eventually(lambda: client.containers(all=True) == [])
        finally:
            client.close()


def ended(box: DockerSandbox, spec: SandboxSpec, second: SecondEngine, how: signal.Signals) -> None:
    """End the engine during a call, see the call and its command end, and start it again."""
    errors: list[BaseException] = []
    running = threading.Event()
    nap = f"300.{uuid.uuid4().int % 10**9:09}"

    def long_call() -> None:
        async def main() -> None:
            command = Command(("bash", "-c", f"echo; exec sleep {nap}"), env=ENV)
            await box.run(spec, command, lambda *_: running.set())

        try:
            anyio.run(main)
        except SandboxUnavailable as error:
            errors.append(error)

    thread = threading.Thread(target=long_call)
    thread.start()
    assert running.wait(60)
    eventually(lambda: bool(processes(nap)))
    second.end(how)
    eventually(lambda: not processes(nap))
    thread.join(90)
    assert [type(error) for error in errors] == [EngineFault]
    second.start()
