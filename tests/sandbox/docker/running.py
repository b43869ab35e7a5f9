"""Running a command on the real engine, and waiting for what follows."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, Callable, Mapping
from typing import Any, Protocol

from sandboxed_tools.sandbox.contract import OutputSink
from sandboxed_tools.sandbox.docker.backend import StopRequest
from sandboxed_tools.tool.result import ExecResult

__all__ = ["ENV", "Run", "eventually"]

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp/home", "LC_ALL": "C.UTF-8"}


def eventually(condition: Callable[[], bool], *, within_s: float = 60) -> None:
    """Wait until it is so; fail when it is not in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)


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
