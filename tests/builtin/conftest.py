"""A file tool called as a Toolbox calls it: validated, with a ticket, on an open workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import Any

import anyio
import pytest

from sandboxed_tools.errors import NotAuthorized
from sandboxed_tools.tool import AnyTool, Command, ExecResult
from sandboxed_tools.tool.context import Ticket, issue_ticket
from sandboxed_tools.workspace import EditJournal, FileStateCache, WorkspaceRoot

CallTool = Callable[..., Any]


class CallOfATest:
    """The context of one call."""

    def __init__(self, ticket: Ticket, resources: list[object], cwd: PurePath | None) -> None:
        self.ticket = ticket
        self.call_id = "test"
        self.cwd = cwd
        self._resources = resources

    def resource(self, kind: type[Any]) -> Any:
        for found in self._resources:
            if isinstance(found, kind):
                return found
        raise NotAuthorized(f"no {kind.__name__}")

    def progress(self, value: Any) -> None:
        raise AssertionError("file tools report no progress")

    def log(self, message: str) -> None:
        raise AssertionError(message)

    def run(self, *_: Any, **__: Any) -> ExecResult:
        raise NotAuthorized("file tools run no programs")

    async def execute(self, command: Command) -> ExecResult:
        raise NotAuthorized("file tools run no commands through their context")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret\n")
    return tmp_path / "project"


@pytest.fixture
def root(project: Path) -> Iterator[WorkspaceRoot]:
    with WorkspaceRoot.open(project) as opened:
        yield opened


@pytest.fixture
def cache() -> FileStateCache:
    return FileStateCache()


@pytest.fixture
def call_tool(root: WorkspaceRoot, cache: FileStateCache) -> CallTool:
    journal = EditJournal(root.path, session="test")

    def call(tool: AnyTool, /, cwd: PurePath | None = None, **raw: Any) -> Any:
        tool_input = tool.parse(raw)
        ctx = CallOfATest(issue_ticket(tool, tool_input), [root, cache, journal], cwd)
        return anyio.run(tool.call, tool_input, ctx)

    return call
