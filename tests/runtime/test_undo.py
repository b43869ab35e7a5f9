"""Undo of what the file tools did: byte for byte, the newest first, never over later edits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandboxed_tools.policy import ConfirmationRequest
from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.workspace import ChangeStore


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"one\r\ntwo\r\n\xff")
    (folder / "a.txt").chmod(0o640)
    os.utime(folder / "a.txt", (1_000_000, 1_000_000))
    return folder


async def yes(_: ConfirmationRequest) -> bool:
    return True


def facts(file: Path) -> tuple[bytes, int, int, int]:
    info = file.stat()
    return file.read_bytes(), info.st_mode, info.st_mtime_ns, info.st_uid


async def test_an_edit_is_undone_byte_for_byte_with_mode_and_time(workspace: Path) -> None:
    before = facts(workspace / "a.txt")
    async with Toolbox(workspace=workspace, confirmer=yes) as box:
        await box.call("Read", {"file_path": "a.txt"})
        await box.call("Edit", {"file_path": "a.txt", "old_string": "two", "new_string": "2\n3"})
        assert (workspace / "a.txt").read_bytes() == b"one\r\n2\r\n3\r\n\xff"
        undone = await box.undo()
        assert undone is not None
        assert undone.done, undone.problems
        assert facts(workspace / "a.txt") == before
        assert await box.undo() is None


async def test_edits_are_undone_one_by_one_the_newest_first(workspace: Path) -> None:
    async with Toolbox(workspace=workspace, confirmer=yes) as box:
        await box.call("Write", {"file_path": "new/n.txt", "content": "1"})
        await box.call("Edit", {"file_path": "new/n.txt", "old_string": "1", "new_string": "2"})
        await box.call("Edit", {"file_path": "new/n.txt", "old_string": "2", "new_string": "3"})
        seen = []
        for _ in range(3):
            undone = await box.undo()
            assert undone is not None
            assert undone.done, undone.problems
            file = workspace / "new" / "n.txt"
            seen.append(file.read_text() if file.exists() else None)
        assert seen == ["2", "1", None]


async def test_a_later_edit_by_somebody_else_is_not_lost(workspace: Path) -> None:
    async with Toolbox(workspace=workspace, confirmer=yes) as box:
        await box.call("Read", {"file_path": "a.txt"})
        await box.call("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "1"})
        (workspace / "a.txt").write_text("somebody else's")
        undone = await box.undo()
        assert undone is not None
        assert not undone.done
        assert undone.problems[0].kind == "conflict"
        assert (workspace / "a.txt").read_text() == "somebody else's"


async def test_after_an_undo_a_file_has_to_be_read_again(workspace: Path) -> None:
    from sandboxed_tools.errors import InvalidInput

    async with Toolbox(workspace=workspace, confirmer=yes) as box:
        await box.call("Read", {"file_path": "a.txt"})
        edit = {"file_path": "a.txt", "old_string": "one", "new_string": "1"}
        await box.call("Edit", edit)
        await box.undo()
        with pytest.raises(InvalidInput):
            await box.call("Edit", edit)


async def test_an_edit_that_fails_leaves_no_entry(workspace: Path) -> None:
    from sandboxed_tools.errors import InvalidInput

    async with Toolbox(workspace=workspace, confirmer=yes) as box:
        await box.call("Read", {"file_path": "a.txt"})
        with pytest.raises(InvalidInput):
            await box.call("Edit", {"file_path": "a.txt", "old_string": "zzz", "new_string": "y"})
        assert ChangeStore().sets(workspace=workspace) == ()
