"""What a check works with: a sandbox under test, an image, and a scratch folder of its own."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from sandboxed_tools.sandbox.contract import (
    ChangesMode,
    OutputSink,
    Sandbox,
    SandboxSpec,
    WorkspaceAccess,
    WorkspaceMount,
)
from sandboxed_tools.tool.command import SCRIPT_PATH, Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.result import ExecResult, Status

__all__ = [
    "ORDINARY_ENV",
    "Bench",
    "CheckFailed",
    "ended",
    "equal",
    "output_of",
    "require",
    "until",
]

ORDINARY_ENV: Mapping[str, str] = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
}

DEFAULT_WALL_S = 30.0
TIMES = frozenset({"wall_s", "idle_s"})


class CheckFailed(AssertionError):
    """The sandbox broke the claim of a check; the message says what was seen instead."""


def require(condition: object, message: str) -> None:
    """Raise :class:`CheckFailed` with ``message`` unless ``condition`` holds."""
    if not condition:
        raise CheckFailed(message)


def equal(actual: object, expected: object, what: str) -> None:
    """Raise :class:`CheckFailed` unless both are equal, naming ``what`` was compared."""
    if actual != expected:
        raise CheckFailed(f"{what}: expected {_short(expected)}, got {_short(actual)}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 600 else f"{text[:300]} … {text[-300:]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Runs commands in the sandbox under test.

    ``folder`` is a scratch folder on this host, for this check alone, removed afterwards.
    The image must have bash, coreutils, procps and python3. ``runtime`` is the engine's, its
    default when ``None``. Everything may take ``patience`` times as long as on a machine that is
    not emulated.
    """

    sandbox: Sandbox
    image: str
    folder: Path
    runtime: str | None = None
    patience: float = 1.0

    def spec(
        self, *, limits: Mapping[str, Any] | None = None, workspace: WorkspaceMount | None = None
    ) -> SandboxSpec:
        values = {"wall_s": DEFAULT_WALL_S, **(limits or {})}
        values |= {name: values[name] * self.patience for name in TIMES & values.keys()}
        return SandboxSpec(
            image=self.image,
            limits=Limits.of(**values),
            workspace=workspace,
            runtime=self.runtime,
        )

    def workspace(
        self,
        name: str = "workspace",
        *,
        access: WorkspaceAccess = "copy_on_write",
        changes: ChangesMode = "discard",
    ) -> WorkspaceMount:
        """A workspace below the scratch folder; it is made when it is not there yet."""
        source = self.folder / name
        source.mkdir(parents=True, exist_ok=True)
        return WorkspaceMount(source.resolve(), access=access, changes=changes)

    async def run(
        self,
        *argv: str,
        stdin: bytes | AsyncIterable[bytes] | None = None,
        env: Mapping[str, str] = ORDINARY_ENV,
        cwd: str | None = None,
        script: bytes | None = None,
        limits: Mapping[str, Any] | None = None,
        workspace: WorkspaceMount | None = None,
        on_output: OutputSink | None = None,
    ) -> ExecResult:
        command = Command(argv, stdin=stdin, env=env, cwd=cwd, script=script)
        return await self.sandbox.run(
            self.spec(limits=limits, workspace=workspace), command, on_output
        )

    async def bash(self, text: str, **options: Any) -> ExecResult:
        """Run a Bash text; a long one travels as a script."""
        if len(text.encode()) > 100_000:
            return await self.run("bash", SCRIPT_PATH, script=text.encode(), **options)
        return await self.run("bash", "-c", text, **options)

    async def python(self, code: str, **options: Any) -> ExecResult:
        """Run Python 3 code without the site module, which only costs time here."""
        return await self.run("python3", "-ISc", code, **options)


def ended(result: ExecResult, status: Status, *, exit_code: int | None = None) -> None:
    """Require how a call ended, showing the ends of its output when it ended otherwise."""
    if result.status == status and (exit_code is None or result.exit_code == exit_code):
        return
    wanted = status if exit_code is None else f"{status} with {exit_code}"
    raise CheckFailed(
        f"expected {wanted}, got {result.status} with exit_code={result.exit_code} "
        f"signal={result.signal} limits_hit={sorted(result.limits_hit)}; "
        f"stdout ends {result.stdout[-300:]!r}, stderr ends {result.stderr[-300:]!r}"
    )


async def output_of(bench: Bench, text: str, **options: Any) -> str:
    """The standard output of a Bash text that must exit with 0."""
    result = await bench.bash(text, **options)
    ended(result, "exited", exit_code=0)
    return result.stdout_text


async def until(condition: Callable[[], object]) -> None:
    """Wait until ``condition`` holds; the check's own deadline bounds the wait."""
    while not condition():  # noqa: ASYNC110 - it is made true by the sink, in another thread
        await anyio.sleep(0.02)
