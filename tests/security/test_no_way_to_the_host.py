"""Invariant 1: no path leads from "container" to "host". What cannot be contained is not run."""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import sandboxed_tools
from sandboxed_tools.errors import (
    EngineNotFound,
    ImageUnavailable,
    InvalidWorkspace,
    NotMovable,
    SandboxedToolsError,
    SandboxUnavailable,
)
from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.sandbox.contract import Capabilities, OutputSink, SandboxSpec
from sandboxed_tools.tool import AnyTool, Command, ExecResult, ToolInput, build_tool

if TYPE_CHECKING:
    from sandboxed_tools.sandbox.docker import DockerSandbox


class Fails:
    """A sandbox that fails in a way of the test's choosing."""

    def __init__(self, fault: BaseException) -> None:
        self._fault = fault

    async def run(
        self, spec: SandboxSpec, command: Command, on_output: OutputSink | None = None
    ) -> ExecResult:
        raise self._fault

    async def capabilities(self) -> Capabilities:
        return Capabilities("fails", {}, ())

    async def aclose(self) -> None:
        pass


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that the command makes when it runs on the host."""
    folder = tmp_path / "open-to-all"
    folder.mkdir()
    folder.chmod(0o777)
    return folder / "made-on-the-host"


@asynccontextmanager
async def calling(**options: Any) -> AsyncIterator[Toolbox]:
    async with Toolbox(**options) as box:
        yield box


def call_that_must_fail(marker: Path, error: type[BaseException], **options: Any) -> str:
    async def main() -> str:
        async with calling(**options) as box:
            with pytest.raises(error) as caught:
                await box.call("Bash", {"command": f"touch {marker}"})
            return str(caught.value)

    message = anyio.run(main)
    assert not marker.exists()
    return message


@pytest.mark.parametrize(
    "fault",
    [
        SandboxUnavailable("the engine is gone"),
        RuntimeError("a bug in the backend"),
        OSError(28, "No space left on device"),
        TimeoutError(),
        MemoryError(),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_whatever_the_sandbox_raises_nothing_runs_on_the_host(
    marker: Path, workspace: Path, fault: BaseException
) -> None:
    call_that_must_fail(marker, Exception, sandbox=Fails(fault), workspace=workspace)


def test_without_an_engine_a_contained_call_is_an_error_that_says_what_to_do(
    marker: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine.sock")
    message = call_that_must_fail(marker, EngineNotFound, workspace=workspace)
    assert "DOCKER_HOST" in message or "engine" in message


@pytest.mark.engine
def test_without_the_image_a_contained_call_is_an_error(
    marker: Path, workspace: Path, sandbox: DockerSandbox
) -> None:
    call_that_must_fail(
        marker,
        ImageUnavailable,
        sandbox=sandbox,
        workspace=workspace,
        image="sandboxed-tools-has/no-such-image:ever",
    )


@pytest.mark.engine
def test_a_closed_sandbox_runs_nothing(
    marker: Path, workspace: Path, sandbox: DockerSandbox
) -> None:
    sandbox.close()
    call_that_must_fail(marker, SandboxedToolsError, sandbox=sandbox, workspace=workspace)


@pytest.mark.engine
def test_a_workspace_that_vanished_is_an_error(
    marker: Path, tmp_path: Path, sandbox: DockerSandbox
) -> None:
    folder = tmp_path / "vanishing"
    folder.mkdir()

    async def main() -> None:
        async with calling(sandbox=sandbox, workspace=folder) as box:
            folder.rmdir()
            with pytest.raises(InvalidWorkspace):
                await box.call("Bash", {"command": f"touch {marker}"})

    anyio.run(main)
    assert not marker.exists()


class Nothing(ToolInput):
    pass


def broken_flag(_: Nothing) -> bool:
    raise KeyError("a bug in a flag")


@pytest.mark.parametrize(
    "flags",
    [
        {"needs_sandbox": True, "is_read_only": True},
        {"needs_sandbox": broken_flag, "is_read_only": True},
        {"needs_sandbox": lambda _: None, "is_read_only": True},
        {"needs_sandbox": lambda _: 1, "is_read_only": True},
    ],
    ids=["stated", "raises", "none", "not-a-bool"],
)
def test_a_python_tool_that_belongs_in_a_container_does_not_run_on_the_host(
    flags: dict[str, Any],
) -> None:
    ran: list[str] = []
    tool: AnyTool = build_tool(
        name="Looks",
        description="Looks at something.",
        input_schema=Nothing,
        call=lambda _input, _ctx: ran.append("ran"),
        **flags,
    )

    async def main() -> None:
        async with calling(tools=[tool], trusted=[tool], sandbox=Fails(RuntimeError())) as box:
            with pytest.raises((NotMovable, SandboxUnavailable, RuntimeError)):
                await box.call("Looks", {})

    anyio.run(main)
    assert ran == []


def test_a_tool_that_nobody_trusts_does_not_run_on_the_host() -> None:
    ran: list[str] = []
    tool: AnyTool = build_tool(
        name="Looks",
        description="Looks at something.",
        input_schema=Nothing,
        call=lambda _input, _ctx: ran.append("ran"),
        is_read_only=True,
        is_concurrency_safe=True,
    )

    async def main() -> None:
        async with calling(tools=[tool], sandbox=Fails(RuntimeError())) as box:
            with pytest.raises((NotMovable, SandboxUnavailable, RuntimeError)):
                await box.call("Looks", {})

    anyio.run(main)
    assert ran == []


# Who may start a process on the host, and which. Nobody else even imports what it takes.
STARTS_PROCESSES = {
    "host": "the gate's own supervisor, for commands that are proven to be read-only",
    "sandbox/docker": "setting up the engine and building images; never a call's command",
    "inside": "the part of a moved call that executes within the container",
    "workspace/idmap.py": "a child that holds a user namespace open, and executes nothing",
    "cli": "an editor or the installer, for the person at the terminal",
}
STARTERS = {"subprocess", "pty", "multiprocessing", "asyncio.subprocess"}
STARTING_CALLS = {
    "os": {"fork", "forkpty", "system", "popen", "posix_spawn", "posix_spawnp"},
    "anyio": {"run_process", "open_process"},
}


def starts_processes(node: ast.AST) -> bool:
    """Whether ``node`` imports what starts processes, or starts one."""
    if isinstance(node, ast.Import):
        return bool({alias.name for alias in node.names} & STARTERS)
    if isinstance(node, ast.ImportFrom):
        return node.module in STARTERS
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        module, name = node.value.id, node.attr
        is_exec = module == "os" and name.startswith(("exec", "spawn"))
        return is_exec or name in STARTING_CALLS.get(module, ())
    return False


def test_only_the_gate_and_the_set_up_can_start_a_process_on_the_host() -> None:
    root = Path(sandboxed_tools.__file__).parent
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if any(map(starts_processes, ast.walk(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert {place for place in found if not place.startswith(tuple(STARTS_PROCESSES))} == set()
    assert any(place.startswith("host/") for place in found)


def test_what_executes_in_a_container_is_not_imported_on_the_host() -> None:
    root = Path(sandboxed_tools.__file__).parent
    importers = {
        (path.relative_to(root).as_posix(), node.module)
        for path in root.rglob("*.py")
        if path.relative_to(root).parts[0] != "inside"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("sandboxed_tools.inside")
    }
    # Names and versions only: where the part inside is found, and what it is called.
    assert {module for _, module in importers} <= {"sandboxed_tools.inside.place"}
