"""The rows of the abuse corpus that are about file tools on the host, as the corpus states them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandboxed_tools.builtin.edit import Edit
from sandboxed_tools.builtin.glob import Glob
from sandboxed_tools.builtin.grep import Grep
from sandboxed_tools.builtin.read import Read
from sandboxed_tools.builtin.write import Write
from sandboxed_tools.errors import InvalidInput, PathRefused
from sandboxed_tools.tool import AnyTool
from sandboxed_tools.workspace import FileStateCache, WorkspaceRoot, find_files, remove_tree
from sandboxed_tools.workspace.find import FindOptions
from sandboxed_tools.workspace.read_file import read_file
from sandboxed_tools.workspace.walk import WalkBudget

CORPUS = Path(__file__).parents[1] / "data" / "abuse.jsonl"
ROWS = {row["id"]: row for row in map(json.loads, CORPUS.read_text("utf-8").splitlines())}
TOOLS: dict[str, AnyTool] = {tool.name: tool for tool in (Glob, Grep, Read, Write, Edit)}
TOOL_CALL = re.compile(r"@tool (\w+) (\{.*\})", re.DOTALL)


def tool_rows() -> list[Any]:
    found = []
    for row in ROWS.values():
        match = TOOL_CALL.fullmatch(row["command"])
        if match is not None and match[1] in TOOLS:
            outcome = row["expect"]["outcome"]
            found.append(pytest.param(match[1], json.loads(match[2]), outcome, id=row["id"]))
    return found


def build(row_id: str, project: Path) -> None:
    """Do to a scratch folder what the row's command does to its workspace."""
    command = ROWS[row_id]["command"].replace("/workspace", str(project))
    command = command.replace("python3", sys.executable)
    subprocess.run(
        ["bash", "-c", command], cwd=project, check=True, timeout=60, capture_output=True
    )


@pytest.mark.parametrize(("tool_name", "raw", "outcome"), tool_rows())
def test_a_call_ends_as_the_corpus_says(
    project: Path, call_tool: Any, tool_name: str, raw: dict[str, Any], outcome: str
) -> None:
    if tool_name in ("Read", "Write", "Edit"):
        raw = {**raw, "file_path": raw["path"]}
        del raw["path"]
    (project / "harmless.txt").write_text("a --pre=/bin/sh b\n")
    before = sorted(os.listdir(project.parent))
    if outcome == "ok":
        call_tool(TOOLS[tool_name], **raw)
    else:
        with pytest.raises((PathRefused, InvalidInput)):
            call_tool(TOOLS[tool_name], **raw)
    assert sorted(os.listdir(project.parent)) == before
    # The twin: what is refused is the place, not every call of this tool.
    twin = {
        "Glob": {"pattern": "*.txt"},
        "Grep": {"pattern": "--pre=/bin/sh", "path": "."},
        "Read": {"file_path": "harmless.txt"},
        "Write": {"file_path": "new.txt", "content": "x"},
    }
    call_tool(TOOLS[tool_name], **twin[tool_name])


def test_the_corpus_still_has_these_rows() -> None:
    assert len(tool_rows()) >= 11


def test_a_link_to_a_system_file_is_refused_by_every_tool(project: Path, call_tool: Any) -> None:
    build("ws-symlink-abs", project)
    before = Path("/etc/passwd").read_bytes()
    for tool, raw in (
        (Read, {"file_path": "notes.txt"}),
        (Edit, {"file_path": "notes.txt", "old_string": "root", "new_string": "toor"}),
        (Write, {"file_path": "notes.txt", "content": "x"}),
        (Grep, {"pattern": "root", "path": "notes.txt"}),
    ):
        with pytest.raises(PathRefused):
            call_tool(tool, **raw)
    assert call_tool(Grep, pattern="root").files == ()
    assert Path("/etc/passwd").read_bytes() == before


def test_links_to_system_folders_are_not_entered(project: Path, call_tool: Any) -> None:
    build("ws-symlink-dir", project)
    for tool, raw in (
        (Edit, {"file_path": "conf/hosts", "old_string": "a", "new_string": "b"}),
        (Write, {"file_path": f"root{project.parent}/hard-pwn", "content": "x"}),
        (Glob, {"pattern": "**", "path": "root"}),
        (Read, {"file_path": "conf/hosts"}),
    ):
        with pytest.raises(PathRefused):
            call_tool(tool, **raw)
    assert set(call_tool(Glob, pattern="**").names) == {"root", "conf"}
    assert call_tool(Glob, pattern="{root,conf}/**").names == ()
    assert not (project.parent / "hard-pwn").exists()


def test_every_hostile_name_goes_from_glob_to_read(project: Path, call_tool: Any) -> None:
    build("ws-names", project)
    found = call_tool(Glob, pattern="*", hidden=True).names
    assert {os.fsencode(name) for name in found} == set(os.listdir(os.fsencode(project)))
    assert len(found) > 20
    cache = FileStateCache()
    with WorkspaceRoot.open(project) as root:
        for name in found:
            assert read_file(root, name, cache=cache).path == name


def test_only_the_bytes_that_were_asked_for_change(project: Path, call_tool: Any) -> None:
    build("ws-encodings", project)
    edits = {
        "bom.txt": ("hello", "HELLO"),
        "utf16.txt": ("hello", "HELLO"),
        "latin1.txt": ("caf", "CAF"),
        "nonl.txt": ("last", "LAST"),
        "mixed.txt": ("b", "B"),
        "crlf.txt": ("x", "X"),
    }
    for name, (old, new) in edits.items():
        path = project / "enc" / name
        before, mode = path.read_bytes(), path.stat().st_mode
        call_tool(Read, file_path=f"enc/{name}")
        call_tool(Edit, file_path=f"enc/{name}", old_string=old, new_string=new)
        codec = "utf-16-le" if name == "utf16.txt" else "ascii"
        assert path.read_bytes() == before.replace(old.encode(codec), new.encode(codec))
        assert path.stat().st_mode == mode


def test_a_tree_that_defeats_recursion_is_searched_and_removed(
    tmp_path: Path, project: Path
) -> None:
    build("disk-deep-dirs", project)
    with WorkspaceRoot.open(project) as root:
        # The time that it has by default can be over on a busy machine.
        options = FindOptions(budget=WalkBudget(wall_s=500))
        found = find_files(root, "**/*", options=options)
        assert found.names == ()
        assert found.unreadable
    remove_tree(project)
    assert sorted(os.listdir(tmp_path)) == ["outside"]


@pytest.mark.parametrize("row_id", ["ws-mode000", "ws-ro-dir"])
def test_folders_without_permissions_are_removed(project: Path, row_id: str) -> None:
    build(row_id, project)
    remove_tree(project)
    assert not project.exists()


def test_a_sparse_file_is_not_loaded(project: Path, call_tool: Any) -> None:
    build("ws-sparse-host", project)
    assert call_tool(Read, file_path="huge").kind == "binary"
    assert call_tool(Grep, pattern="x").files == ()
    with pytest.raises(InvalidInput):
        call_tool(Edit, file_path="huge", old_string="x", new_string="y")
