"""A program that makes calls removes what dead owners left, and waits for none of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import docker
import pytest
from tests.sandbox.docker.proxy import CuttableProxy
from tests.sandbox.docker.running import ENV, eventually

from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker import rounds
from sandboxed_tools.sandbox.docker.backend import DockerSandbox
from sandboxed_tools.sandbox.docker.endpoints import Endpoint
from sandboxed_tools.sandbox.docker.engine import Engine, ask_engine
from sandboxed_tools.sandbox.docker.images import image_tag
from sandboxed_tools.sandbox.docker.owner import Owner
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.state import state_dir
from sandboxed_tools.workspace.views import WorkspaceViews

pytestmark = pytest.mark.engine


def dead_owner() -> Owner:
    """A process of this installation that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait(60)
    return replace(Owner.current(), pid=child.pid, started="1")


class Left:
    """Containers that were created and never started, removed in the end whatever happens."""

    def __init__(self, api: docker.APIClient, image: str) -> None:
        self._api = api
        self._image = image_tag(image)
        self.made: list[str] = []

    def by(self, owner: Owner) -> str:
        labels = owner.labels(deadline_s=600, kind="call")
        self.made.append(self._api.create_container(self._image, ["true"], labels=labels)["Id"])
        return self.made[-1]

    def is_there(self, container: str) -> bool:
        found = self._api.containers(all=True, filters={"id": container})
        return bool(found)


@pytest.fixture
def left(api: docker.APIClient, base_image: str) -> Iterator[Left]:
    left = Left(api, base_image)
    yield left
    for container in left.made:
        if left.is_there(container):
            api.remove_container(container, force=True)


@pytest.fixture
def spec(base_image: str) -> SandboxSpec:
    return SandboxSpec(base_image, limits=Limits.of(memory_bytes="64m"))


@pytest.mark.parametrize("warm", [True, False])
def test_first_call_of_a_program_removes_what_a_dead_owner_left_and_nothing_else(
    engine: Engine, spec: SandboxSpec, left: Left, warm: bool
) -> None:
    gone, kept = left.by(dead_owner()), left.by(Owner.current())
    box = DockerSandbox(engine, warm=warm)
    try:
        assert anyio.run(box.run, spec, Command(("true",), env=ENV)).exit_code == 0
        eventually(lambda: not left.is_there(gone))
        assert left.is_there(kept)
    finally:
        box.close()


def test_program_that_lives_long_looks_again_without_a_call(
    engine: Engine, spec: SandboxSpec, left: Left, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "PERIOD_S", 0.5)
    box = DockerSandbox(engine)
    try:
        anyio.run(box.prewarm, spec, 1)
        for _ in range(2):
            gone = left.by(dead_owner())
            eventually(lambda gone=gone: not left.is_there(gone))  # type: ignore[misc]
    finally:
        box.close()


class Views(WorkspaceViews):
    """Views that say when they were looked through."""

    looks = 0

    def gc(self) -> int:
        self.looks += 1
        return super().gc()


def test_views_are_not_looked_through_by_each_of_many_short_programs(
    engine: Engine, spec: SandboxSpec
) -> None:
    stamp = state_dir() / rounds.STAMP
    views = Views()

    def program() -> None:
        box = DockerSandbox(engine, views=views, warm=False)
        anyio.run(box.run, spec, Command(("true",), env=ENV))
        thread = box._rounds._thread
        assert thread is not None
        thread.join(60)
        box.close()

    stamp.unlink(missing_ok=True)
    for _ in range(3):
        program()
    assert views.looks == 1
    os.utime(stamp, (0, 0))
    program()
    assert views.looks == 2
    os.utime(stamp, (2**40, 2**40))  # written by a clock that was wrong
    program()
    assert views.looks == 3


def test_what_cannot_be_removed_holds_up_nothing_that_is_made_ahead(
    engine: Engine, spec: SandboxSpec, left: Left, tmp_path: Path
) -> None:
    target = engine.endpoint.socket_path
    assert target is not None
    proxy = CuttableProxy(tmp_path / "engine.sock", target)
    found = ask_engine(Endpoint(proxy.url, source="a test", is_explicit=True))
    assert isinstance(found, Engine)
    stuck = left.by(dead_owner())
    proxy.hold_on = stuck.encode()
    box = DockerSandbox(found)
    try:
        # The engine is given a minute for the stuck one.
        assert anyio.run(lambda: box.prewarm(spec, 1, timeout_s=40)) == 1
        eventually(lambda: proxy.failures >= 1)
        assert left.is_there(stuck)
        assert anyio.run(box.run, spec, Command(("echo", "served"), env=ENV)).stdout == b"served\n"
    finally:
        proxy.hold_on = None
        box.close()
        proxy.close()
