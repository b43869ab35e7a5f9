"""The type of the fixture that runs a command."""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from typing import Any, Protocol

from sandboxed_tools.sandbox.contract import OutputSink
from sandboxed_tools.sandbox.docker.backend import StopRequest
from sandboxed_tools.tool.result import ExecResult

__all__ = ["ENV", "Run"]

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp/home", "LC_ALL": "C.UTF-8"}


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
