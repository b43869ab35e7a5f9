"""Sessions: the directory holds from call to call, held changes stay in sight and off the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandboxed_tools.errors import ConfigurationError, PendingChanges
from sandboxed_tools.runtime import Toolbox

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("engine")]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "sub" / "a.txt").write_text("a\n")
    return folder


async def printed(box: Toolbox, command: str) -> str:
    result = await box.call("Bash", {"command": command})
    return str(result.output.stdout_text)


async def test_the_directory_of_one_call_is_that_of_the_next_wherever_they_run(
    workspace: Path,
) -> None:
    async with Toolbox(workspace=workspace) as box:
        await printed(box, "cd sub")
        assert await printed(box, "pwd; ls") == f"{workspace}/sub\na.txt\ndeep\n"
        await printed(box, "cd deep; touch x; rm x")
        assert await printed(box, "pwd") == f"{workspace}/sub/deep\n"
        assert (await box.call("Glob", {"pattern": "*"})).output.names == ()
        await printed(box, "cd /; true")
        assert await printed(box, "pwd") == f"{workspace}/sub/deep\n"
        await printed(box, "cd /workspace; touch y; rm y")
        assert await printed(box, "pwd") == f"{workspace}\n"


async def test_a_directory_that_only_a_link_leads_to_outside_is_not_kept(workspace: Path) -> None:
    (workspace / "out").symlink_to("/etc")
    async with Toolbox(workspace=workspace, changes="discard") as box:
        await printed(box, "cd out; touch /tmp/x")
        assert await printed(box, "pwd") == f"{workspace}\n"
        await printed(box, "mkdir new; cd new; touch z")
        assert await printed(box, "pwd") == f"{workspace}\n"


async def test_held_changes_are_seen_by_the_next_call_and_kept_from_host_tools(
    workspace: Path,
) -> None:
    async with Toolbox(workspace=workspace) as box:
        made = await box.call("Bash", {"command": "echo new > sub/b.txt"})
        held = made.output.changes
        assert held is not None
        assert held.decision == "held"
        assert held.id is not None
        assert not (workspace / "sub" / "b.txt").exists()

        looked = await box.call("Bash", {"command": "cat sub/b.txt"})
        assert looked.output.stdout == b"new\n"
        assert looked.placement.where == "container"
        assert looked.placement.reasons[0].code == "held_changes"
        with pytest.raises(PendingChanges, match=held.id):
            await box.call("Glob", {"pattern": "**"})

        assert (await box.apply(held.id)).done
        assert (workspace / "sub" / "b.txt").read_text() == "new\n"
        assert (await box.call("Bash", {"command": "cat sub/b.txt"})).placement.where == "host"
        assert "sub/b.txt" in (await box.call("Glob", {"pattern": "**"})).output.names

        undone = await box.undo()
        assert undone is not None
        assert undone.done
        assert not (workspace / "sub" / "b.txt").exists()
        assert await box.undo() is None


async def test_two_sessions_never_see_each_others_changes(workspace: Path) -> None:
    async with Toolbox(workspace=workspace, session="one") as one:
        await printed(one, "echo 1 > mine")
        async with Toolbox(workspace=workspace, session="two") as two:
            assert (await two.call("Bash", {"command": "cat mine"})).output.exit_code == 1
    async with Toolbox(workspace=workspace, session="one") as again:
        assert await printed(again, "cat mine") == "1\n"
        for item in again.session.held():
            assert (await again.discard(item.id)).done


async def test_a_session_needs_a_workspace_and_a_plain_name(workspace: Path) -> None:
    async with Toolbox() as box:
        with pytest.raises(ConfigurationError):
            _ = box.session
    for name in ("", "../x", "a b", "-x", "x" * 65, "a\n"):
        with pytest.raises(ConfigurationError):
            async with Toolbox(workspace=workspace, session=name):
                pass
