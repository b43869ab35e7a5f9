"""Running a command on the real engine, and waiting for what follows."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from sandboxed_tools.sandbox.contract import OutputSink, SandboxSpec
from sandboxed_tools.sandbox.docker.backend import DockerSandbox, StopRequest
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.result import ExecResult
from sandboxed_tools.tool.state import installation_id

if TYPE_CHECKING:
    import docker

__all__ = ["ENV", "Run", "call", "containers", "eventually"]

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp/home", "LC_ALL": "C.UTF-8"}


def eventually(condition: Callable[[], bool], *, within_s: float = 60) -> None:
    """Wait until it is so; fail when it is not in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)


def call(box: DockerSandbox, spec: SandboxSpec, text: str) -> ExecResult:
    """Run a bash text in a container of this kind."""
    return anyio.run(box.run, spec, Command(("bash", "-c", text), env=ENV))


def containers(
    api: docker.APIClient, *, kind: str | None = None, pid: int | None = None
) -> set[str]:
    """The ids of this installation's containers; of this kind and this owner alone, if stated."""
    labels = [f"sandboxed-tools.installation={installation_id()}"]
    labels += [] if kind is None else [f"sandboxed-tools.kind={kind}"]
    labels += [] if pid is None else [f"sandboxed-tools.pid={pid}"]
    return {found["Id"] for found in api.containers(all=True, filters={"label": labels})}


class Run(Protocol):
    """Runs a bash text or an argument list and gives the result."""

    def __call__(
        self,
        command: str | tuple[str, ...],
        *,
        stdin: bytes | AsyncIterable[bytes] | None = None,
        env: Mapping[str, str] = ENV,
        cwd: str | None = None,
        script: bytes | None = None,
        on_output: OutputSink | None = None,
        stop: StopRequest | None = None,
        **limits: Any,
    ) -> ExecResult: ...
