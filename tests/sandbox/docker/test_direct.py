"""The command as process 1 itself, as a runtime that must read programs has it; here by runc."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

from sandboxed_tools import Bash, Toolbox
from sandboxed_tools.builtin.bash import SANDBOX_ENV
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker import moulds
from sandboxed_tools.sandbox.docker.backend import DockerSandbox
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.result import ExecResult

pytestmark = pytest.mark.engine


@pytest.fixture
def direct(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerSandbox]:
    monkeypatch.setattr(moulds, "_reads_programs", lambda runtime: True)
    made = DockerSandbox(engine, warm=False)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize(
    ("script", "status", "exit_code", "signal"),
    [
        ("echo out; echo err >&2", "exited", 0, None),
        ("echo out; echo err >&2; exit 3", "exited", 3, None),
        ("echo out; echo err >&2; exit 143", "signalled", None, 15),
    ],
)
def test_it_ends_as_it_ends_and_nobody_is_said_to_have_ended_it(
    direct: DockerSandbox,
    base_image: str,
    script: str,
    status: str,
    exit_code: int | None,
    signal: int | None,
) -> None:
    spec = SandboxSpec(base_image, limits=Limits.of(wall_s=60))
    result = anyio.run(direct.run, spec, Command(("/bin/bash", "-c", script)))
    assert (result.status, result.exit_code, result.signal) == (status, exit_code, signal)
    assert (result.stdout, result.stderr) == (b"out\n", b"err\n")
    assert result.warnings == ()
    assert result.usage.memory_peak_bytes is None
    assert not result.trusted_report


def test_the_shipped_bash_works_without_a_launcher(direct: DockerSandbox, base_image: str) -> None:
    async def called() -> ExecResult:
        async with Toolbox(sandbox=direct, image=base_image) as box:
            result = await box.call(Bash, {"command": "touch /tmp/made; env"})
            assert result.exec is not None
            return result.exec

    result = anyio.run(called)
    assert result.ok, result
    assert {line.partition("=")[0] for line in result.stdout_text.splitlines()} >= set(SANDBOX_ENV)


def test_a_deadline_is_the_same_without_a_launcher(direct: DockerSandbox, base_image: str) -> None:
    spec = SandboxSpec(base_image, limits=Limits.of(wall_s=3))
    result = anyio.run(direct.run, spec, Command(("/bin/bash", "-c", "echo out; exec sleep 100")))
    assert (result.status, result.stdout, result.warnings) == ("timeout", b"out\n", ())
