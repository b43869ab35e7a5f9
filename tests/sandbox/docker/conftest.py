"""A sandbox on the real engine, and a short way to run a command in it."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.sandbox.docker.proxy import CuttableProxy
from tests.sandbox.docker.running import ENV, Run

from sandboxed_tools.sandbox.contract import OutputSink, SandboxSpec
from sandboxed_tools.sandbox.docker.backend import DockerSandbox, StopRequest
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.result import ExecResult
from sandboxed_tools.workspace.views import WorkspaceViews


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "my work"
    folder.mkdir()
    (folder / "kept.txt").write_text("kept")
    (folder / "private.txt").write_text("private")
    (folder / "private.txt").chmod(0o600)
    return folder


@pytest.fixture(scope="module")
def sandbox(engine: Engine, base_image: str) -> Iterator[DockerSandbox]:
    box = DockerSandbox(engine, warm=False)
    yield box
    box.close()


@pytest.fixture
def box(engine: Engine, base_image: str) -> Iterator[DockerSandbox]:
    """One that makes containers ahead of calls, for one test."""
    box = DockerSandbox(engine, views=WorkspaceViews())
    yield box
    box.close()


@pytest.fixture
def spec(base_image: str) -> SandboxSpec:
    return SandboxSpec(base_image, limits=Limits.of(memory_bytes="64m"))


@pytest.fixture
def proxy(engine: Engine, tmp_path: Path) -> Iterator[CuttableProxy]:
    """In front of the engine."""
    target = engine.endpoint.socket_path
    assert target is not None
    proxy = CuttableProxy(tmp_path / "engine.sock", target)
    yield proxy
    proxy.close()


@pytest.fixture(scope="module")
def run(sandbox: DockerSandbox, base_image: str) -> Run:
    def run(
        command: str | tuple[str, ...],
        *,
        stdin: bytes | AsyncIterable[bytes] | None = None,
        env: Mapping[str, str] = ENV,
        cwd: str | None = None,
        script: bytes | None = None,
        on_output: OutputSink | None = None,
        stop: StopRequest | None = None,
        **limits: Any,
    ) -> ExecResult:
        argv = ("bash", "-c", command) if isinstance(command, str) else command
        spec = SandboxSpec(base_image, limits=Limits.of(**{"wall_s": 60, **limits}))
        return anyio.run(
            functools.partial(sandbox.run, stop=stop),
            spec,
            Command(argv, stdin=stdin, env=env, cwd=cwd, script=script),
            on_output,
        )

    return run
