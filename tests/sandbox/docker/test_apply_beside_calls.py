"""Changes are applied while a call works on the same workspace: beside it or in conflict, whole."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests.sandbox.docker.running import ENV

from sandboxed_tools.sandbox.contract import SandboxSpec, WorkspaceMount
from sandboxed_tools.sandbox.docker.backend import DockerSandbox
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.mounts import ChangesMode, ViewChoice
from sandboxed_tools.tool.result import ExecResult, Stream
from sandboxed_tools.workspace import ChangeStore, Decision, apply_set, undo_set
from sandboxed_tools.workspace.views import WorkspaceViews

pytestmark = pytest.mark.engine

DEADLINE_S = 60


@pytest.fixture(scope="module")
def box(engine: Engine, base_image: str) -> Iterator[DockerSandbox]:
    box = DockerSandbox(engine, views=WorkspaceViews(), warm=False)
    yield box
    box.close()


@pytest.fixture(params=["overlay", "copy"])
def view(request: pytest.FixtureRequest) -> ViewChoice:
    return "copy" if request.param == "copy" else "overlay"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "docs").mkdir(parents=True)
    (root / "docs" / "a.md").write_text("# A\n")
    (root / "shared.txt").write_text("one\n")
    (root / "old.txt").write_text("old\n")
    return root


Call = Callable[..., ExecResult]


@pytest.fixture
def call(box: DockerSandbox, base_image: str, workspace: Path, view: ViewChoice) -> Call:
    def make(
        script: str,
        *,
        changes: ChangesMode = "hold",
        midway: Callable[[], Decision] | None = None,
    ) -> ExecResult:
        """Run a script; ``midway`` is done once it says "ready" and waits for a word."""
        ready = threading.Event()

        def sink(_: Stream, data: bytes) -> None:
            if b"ready" in data:
                ready.set()

        async def word() -> AsyncIterator[bytes]:
            assert await anyio.to_thread.run_sync(ready.wait, DEADLINE_S)
            if midway is not None:
                decision = await anyio.to_thread.run_sync(midway)
                assert decision.done, decision.problems
            yield b"go on\n"

        mount = WorkspaceMount(workspace, changes=changes, view=view)
        spec = SandboxSpec(base_image, limits=Limits.of(wall_s=DEADLINE_S), workspace=mount)
        stdin = None if midway is None else word()
        command = Command(("bash", "-c", script), env=ENV, stdin=stdin)
        result = anyio.run(box.run, spec, command, sink)
        assert result.exit_code == 0, result.stderr_text
        return result

    return make


def id_of(result: ExecResult) -> str:
    assert result.changes is not None
    assert result.changes.id is not None
    return result.changes.id


def decision_of(result: ExecResult) -> str:
    assert result.changes is not None
    return result.changes.decision


def test_what_both_change_is_a_conflict_and_each_file_is_one_or_the_other(
    call: Call, workspace: Path
) -> None:
    store = ChangeStore()
    first = id_of(call("echo first >> shared.txt; echo f > first"))
    script = "cat shared.txt; echo ready; read -r; echo second >> shared.txt; echo s > second"
    second = call(script, changes="apply", midway=lambda: apply_set(store, first))
    assert decision_of(second) == "held"
    assert (workspace / "shared.txt").read_text() == "one\nfirst\n"
    assert not (workspace / "second").exists()
    problems = apply_set(store, id_of(second)).problems
    assert {(item.path, item.kind) for item in problems} == {(b"shared.txt", "conflict")}
    assert apply_set(store, id_of(second), force=True).done
    # Made from what was there before or after, as the call had looked at it, and never a mixture.
    text = (workspace / "shared.txt").read_text()
    assert text in ("one\nsecond\n", "one\nfirst\nsecond\n")
    assert undo_set(store, id_of(second)).done
    assert (workspace / "shared.txt").read_text() == "one\nfirst\n"


def test_what_only_one_of_them_touches_is_applied_beside_the_other(
    call: Call, workspace: Path
) -> None:
    store = ChangeStore()
    first = id_of(call("echo f > docs/first; rm old.txt; echo more >> docs/a.md"))
    script = "ls docs; echo ready; read -r; echo s > docs/second; mkdir new; echo n > new/n"
    second = call(script, changes="apply", midway=lambda: apply_set(store, first))
    assert decision_of(second) == "applied"
    found = sorted(path.relative_to(workspace).as_posix() for path in workspace.rglob("*"))
    assert found == [
        *("docs", "docs/a.md", "docs/first", "docs/second", "new", "new/n", "shared.txt"),
    ]
    for change_set_id in (id_of(second), first):
        assert undo_set(store, change_set_id).done
    assert (workspace / "docs" / "a.md").read_text() == "# A\n"
    assert (workspace / "old.txt").read_text() == "old\n"


def test_an_undo_beside_a_call_is_a_conflict_where_both_meet(call: Call, workspace: Path) -> None:
    store = ChangeStore()
    first = id_of(call("echo first >> shared.txt; rm -r docs"))
    assert apply_set(store, first).done
    script = (
        "cat shared.txt; echo ready; read -r; echo s >> shared.txt; mkdir docs; echo s > docs/s"
    )
    second = call(script, changes="apply", midway=lambda: undo_set(store, first))
    assert decision_of(second) == "held"
    assert (workspace / "shared.txt").read_text() == "one\n"
    assert [path.name for path in (workspace / "docs").iterdir()] == ["a.md"]
