"""A real engine that is stopped and started in the middle: typed errors, then service again."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import docker
import pytest
from tests.sandbox.docker.running import ENV

from sandboxed_tools.errors import EngineFault, SandboxUnavailable
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker.backend import DockerSandbox
from sandboxed_tools.sandbox.docker.endpoints import Endpoint
from sandboxed_tools.sandbox.docker.engine import Engine, ask_engine
from sandboxed_tools.sandbox.docker.images import image_tag
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.result import ExecResult

pytestmark = [
    pytest.mark.engine,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("dockerd") is None,
        reason="starting a second engine needs root and dockerd",
    ),
]


def eventually(condition: Callable[[], bool], *, within_s: float = 60) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.1)


class SecondEngine:
    """An engine with everything of its own, that can be ended and started again."""

    def __init__(self, folder: Path) -> None:
        self.url = f"unix://{folder}/e.sock"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        # In a network of its own: an engine without a bridge removes the docker0 that it finds.
        words = ["unshare", "--net", "dockerd", f"--host={self.url}", "--bridge=none"]
        words += [f"--pidfile={self._folder}/e.pid", f"--data-root={self._folder}/data"]
        words += [f"--exec-root={self._folder}/exec", "--iptables=false"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        eventually(lambda: isinstance(self.found(), Engine))

    def found(self) -> object:
        return ask_engine(Endpoint(self.url, source="a test", is_explicit=True), timeout_s=2)

    def end(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None


@pytest.fixture
def second(base_image: str, api: docker.APIClient) -> Iterator[SecondEngine]:
    folder = Path(tempfile.mkdtemp(prefix="s-"))
    engine = SecondEngine(folder)
    try:
        engine.start()
        target = docker.APIClient(base_url=engine.url, timeout=120)
        try:
            for _ in target.load_image(api.get_image(image_tag(base_image))):  # type: ignore[no-untyped-call]
                pass
        finally:
            target.close()
        yield engine
    finally:
        engine.end()
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
            if str(folder) in line:
                subprocess.run(["umount", "-l", line.split()[4]], check=False)
        shutil.rmtree(folder, ignore_errors=True)


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
