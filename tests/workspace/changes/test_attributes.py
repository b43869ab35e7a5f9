"""Attributes that a call leaves on files, beyond those that are seen in a change set."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from sandboxed_tools.workspace.apply import apply_set, undo_set
from sandboxed_tools.workspace.attributes import restore_attributes
from sandboxed_tools.workspace.change_store import ChangeStore

from .conftest import Call

# struct vfs_cap_data, revision 2: cap_setuid, effective (linux/capability.h).
CAPABILITIES = struct.pack("<5I", 0x02000001, 1 << 7, 0, 0, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives capabilities")
@pytest.mark.parametrize("owner", [0, 1234])
def test_capabilities_are_dropped_where_the_owner_stays_the_same(
    tmp_path: Path, owner: int
) -> None:
    made = tmp_path / "made"
    made.write_text("x")
    os.chown(made, owner, owner)
    os.setxattr(made, "security.capability", CAPABILITIES)
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        restore_attributes(folder, b"made", None)
    finally:
        os.close(folder)
    assert "security.capability" not in os.listxattr(made)
    assert (made.stat().st_uid, made.read_text()) == (owner, "x")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts overlays and gives capabilities")
@pytest.mark.parametrize("choice", ["overlay", "copy"])
def test_no_capability_comes_with_a_file_that_was_moved_or_made(
    choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    tool = workspace / "run.sh"
    os.setxattr(tool, "security.capability", CAPABILITIES)
    called = call("mv run.sh moved.sh; cp -a moved.sh copied.sh; cat moved.sh", view=choice)
    assert called.output == tool.read_text()
    assert apply_set(store, called.id).done
    for name in ("moved.sh", "copied.sh"):
        assert "security.capability" not in os.listxattr(workspace / name)
    assert undo_set(store, called.id).done
    assert os.getxattr(tool, "security.capability") == CAPABILITIES
