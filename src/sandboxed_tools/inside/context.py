"""The context of a moved call, inside its container."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, NoReturn

from pydantic_core import to_json

from sandboxed_tools.errors import InvalidInput, NotAuthorized
from sandboxed_tools.inside.frame_writer import FrameWriter
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.result import ExecResult, Status

__all__ = ["InsideContext"]

MAX_LOG_BYTES = 8192
MAX_PROGRESS_BYTES = 65_536


class InsideContext:
    """Implements :class:`~sandboxed_tools.tool.context.Context` where the tool's work executes."""

    def __init__(self, writer: FrameWriter, *, call_id: str, cwd: PurePath) -> None:
        self._writer = writer
        self.call_id = call_id
        self.cwd = cwd

    @property
    def ticket(self) -> NoReturn:
        raise NotAuthorized("There is no ticket in a container: the call is authorized already.")

    def resource(self, kind: type[Any]) -> NoReturn:
        raise NotAuthorized(
            f"{kind.__name__} is the client's; a call that executes in a container has files only."
        )

    def progress(self, value: Any) -> None:
        """Report progress, as JSON.

        Raises:
            ValueError: it is not JSON, or longer than 64 KiB.
        """
        data = to_json(value, inf_nan_mode="strings")
        if len(data) > MAX_PROGRESS_BYTES:
            raise ValueError(f"progress is at most {MAX_PROGRESS_BYTES} bytes of JSON")
        self._writer.send("P", data)

    def log(self, message: str) -> None:
        """A line for the operator's log; a long one is cut."""
        self._writer.send("L", str(message).encode("utf-8", "backslashreplace")[:MAX_LOG_BYTES])

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_s: float | None = None,
    ) -> ExecResult:
        """Run a program beside the tool's own code, in the same container and its limits.

        Raises:
            InvalidInput: the program cannot be executed.
        """
        try:
            child = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=None if env is None else dict(env),
                cwd=cwd,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise InvalidInput(f"The program cannot be executed: {error}") from error
        with child:
            try:
                out, err = child.communicate(stdin, timeout=timeout_s)
                return _result(child.returncode, out, err)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                out, err = child.communicate()
                return _result(None, out, err)
            except BaseException:
                os.killpg(child.pid, signal.SIGKILL)
                raise

    async def execute(self, command: Command) -> ExecResult:
        """As :meth:`run`, from asynchronous work."""
        import anyio.to_thread

        def work() -> ExecResult:
            stdin = command.stdin if isinstance(command.stdin, bytes) else b""
            return self.run(
                command.argv, stdin=stdin, env=dict(command.env) or None, cwd=command.cwd
            )

        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


def _result(code: int | None, out: bytes, err: bytes) -> ExecResult:
    status: Status = "timeout" if code is None else "exited" if code >= 0 else "signalled"
    return ExecResult(
        status,
        exit_code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        stdout=out,
        stderr=err,
        stdout_bytes=len(out),
        stderr_bytes=len(err),
    )
