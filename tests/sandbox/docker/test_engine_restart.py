"""A real engine that is stopped and started in the middle: typed errors, then service again."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import anyio
import docker
import pytest
from tests.sandbox.docker.running import ENV, eventually
from tests.sandbox.docker.second_engine import MARKS, SecondEngine, second_engine

from sandboxed_tools.errors import EngineFault, SandboxUnavailable
from sandboxed_tools.sandbox.contract import SandboxSpec
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
