"""What is too large for a model is kept whole, privately, and can be read."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.recording_sandbox import RecordingSandbox

from sandboxed_tools.builtin import Bash, Read
from sandboxed_tools.errors import PathRefused
from sandboxed_tools.runtime import Toolbox, large_results
from sandboxed_tools.runtime.large_results import LargeResults
from sandboxed_tools.sandbox.contract import OutputSink, SandboxSpec
from sandboxed_tools.tool import AnyTool, Command, ExecResult, ToolInput, build_tool


class TextInput(ToolInput):
    text: str = ""


def echo(**stated: Any) -> AnyTool:
    return build_tool(
        name="Echo",
        description="x",
        input_schema=TextInput,
        call=lambda tool_input, ctx: tool_input.text,
        is_read_only=True,
        **stated,
    )


def kept_path(text: str) -> Path:
    found = re.search(r"characters cut; the whole result is in (\S+) …\]", text)
    assert found is not None, text[:300]
    return Path(found[1])


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


async def test_the_model_gets_head_tail_and_path_and_can_read_the_rest(workspace: Path) -> None:
    tool = echo(max_result_size=1000)
    text = "head\n" + "x" * 60 + "\n" + "\n".join(f"line {n}" for n in range(20_000)) + "\ntail"
    async with Toolbox([tool, Read], trusted=(tool,), workspace=workspace) as box:
        result = await box.call(tool, {"text": text})
        assert len(result.text) < 1300
        assert result.text.startswith("head")
        assert result.text.endswith("tail")
        path = kept_path(result.text)
        assert path.read_text() == text
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        read = await box.call("Read", {"file_path": str(path), "offset": 10_000, "limit": 3})
        assert "line 9997" in read.text
        assert (await box.call(tool, {"text": "short"})).text == "short"
    assert path.exists(), "whoever was given the path may still open it"


async def test_another_toolbox_cannot_read_it_and_an_empty_folder_goes(workspace: Path) -> None:
    tool = echo(max_result_size=256)
    async with Toolbox([tool], trusted=(tool,), workspace=workspace) as box:
        path = kept_path((await box.call(tool, {"text": "x" * 1000})).text)
    async with Toolbox([Read], workspace=workspace) as box:
        with pytest.raises(PathRefused):
            await box.call("Read", {"file_path": str(path)})
        empty = box.results_folder
        assert empty.is_dir()
    assert not empty.exists()


async def test_the_whole_output_of_a_command_is_kept(workspace: Path) -> None:
    class Chatty(RecordingSandbox):
        async def run(
            self, spec: SandboxSpec, command: Command, on_output: OutputSink | None = None
        ) -> ExecResult:
            return ExecResult("exited", exit_code=0, stdout=b"y\n" * 100_000)

    async with Toolbox([Bash], sandbox=Chatty(), workspace=workspace) as box:
        result = await box.call("Bash", {"command": "rm x"})
    assert len(result.text) < 70_000
    assert kept_path(result.text).read_text().count("y\n") == 100_000


def test_files_and_folders_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_results, "MAX_FILE_BYTES", 10_000)
    monkeypatch.setattr(large_results, "MAX_FOLDER_BYTES", 15_000)
    results = LargeResults(tmp_path)
    text = "é" * 20_000
    first = results.shortened(text, max_chars=300, call_id="one")
    assert kept_path(first).stat().st_size <= 10_000
    assert "bytes cut" in kept_path(first).read_text(errors="replace")
    second = results.shortened(text, max_chars=300, call_id="two")
    assert "could not be kept" in second
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_in_the_way_is_never_written_through(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "c.txt").symlink_to(outside)
    text = LargeResults(folder).shortened("x" * 1000, max_chars=300, call_id="c")
    assert "could not be kept" in text
    assert outside.read_text() == "mine"


def test_text_of_any_kind_is_kept(tmp_path: Path) -> None:
    results = LargeResults(tmp_path)
    for number, piece in enumerate(("\udcff", "\ud800", "\0", "\u202e", "é")):
        kept_path(results.shortened(piece * 1000, max_chars=300, call_id=str(number))).read_bytes()


async def test_where_no_folder_can_be_made_results_are_still_shortened(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "results").write_text("a file in the way")
    monkeypatch.setenv("SANDBOXED_TOOLS_STATE_DIR", str(state))
    tool = echo(max_result_size=256)
    async with Toolbox([tool], trusted=(tool,)) as box:
        result = await box.call(tool, {"text": "x" * 10_000})
    assert len(result.text) < 400
    assert "could not be kept" in result.text


def test_old_folders_go_and_nothing_else() -> None:
    first = LargeResults.open()
    base = first.folder.parent
    old = base / f"{int(time.time() - large_results.MAX_AGE_S - 10)}-abc"
    old.mkdir()
    (old / "c.txt").write_text("x")
    other = base / "1-notes"
    link = base / "1-link"
    target = base.parent / "kept-by-the-test"
    target.mkdir()
    (target / "file").write_text("x")
    os.symlink(target, link)
    other.write_text("a file of somebody")
    second = LargeResults.open()
    assert not old.exists()
    assert (target / "file").exists()
    assert other.exists()
    assert first.folder.exists()
    for results in (first, second):
        results.close()
    link.unlink()
    other.unlink()
    (target / "file").unlink()
    target.rmdir()
