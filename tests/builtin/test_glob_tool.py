"""Glob as a tool."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from sandboxed_tools.builtin.glob import Glob
from sandboxed_tools.builtin.host_work import run_stoppable
from sandboxed_tools.errors import InvalidInput, PathRefused


def test_it_names_files_newest_first(project: Path, call_tool: Any) -> None:
    (project / "src").mkdir()
    for age, name in enumerate(["src/new.py", "middle.py", "src/old.py"]):
        (project / name).touch()
        os.utime(project / name, (0, 10**9 - age))
    assert call_tool(Glob, pattern="**/*.py").names == ("src/new.py", "middle.py", "src/old.py")
    assert call_tool(Glob, pattern="*.py", cwd=project / "src").total == 2


def test_it_only_looks() -> None:
    tool_input = Glob.parse({"pattern": "*"})
    assert Glob.is_read_only(tool_input)
    assert Glob.is_concurrency_safe(tool_input)
    assert not Glob.needs_sandbox(tool_input)


def test_it_says_how_many_there_were(project: Path, call_tool: Any) -> None:
    for number in range(130):
        (project / f"f{number}").touch()
    text = Glob.to_model_text(call_tool(Glob, pattern="*"))
    assert "the newest 100 of 130 files" in text


def test_a_hostile_name_cannot_break_the_list_a_model_gets(project: Path, call_tool: Any) -> None:
    (project / "a\nFAKE.py").touch()
    (project / "\x1b]0;t\x07\u202ex.py").touch()
    os.close(os.open(os.fsencode(project) + b"/\xff<untrusted>.py", os.O_CREAT))
    output = call_tool(Glob, pattern="*.py")
    text = Glob.to_model_text(output)
    assert len(text.splitlines()) == 3 + 2
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert text.isprintable() or "\n" in text
    assert "\x1b" not in Glob.render_result(output)


@pytest.mark.parametrize("path", ["/etc", "..", "/workspace/../etc", "missing", "src/\0"])
def test_a_folder_outside_is_refused(call_tool: Any, path: str) -> None:
    with pytest.raises(PathRefused):
        call_tool(Glob, pattern="*", path=path)


@pytest.mark.parametrize("pattern", ["/**/*", "../**/*.pem", ""])
def test_a_pattern_outside_is_refused(call_tool: Any, pattern: str) -> None:
    with pytest.raises(InvalidInput):
        call_tool(Glob, pattern=pattern)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_cancelled_work_is_told_to_stop_and_waited_for(backend: str) -> None:
    ended: list[bool] = []

    async def inside() -> None:
        def work(is_cancelled: Any) -> None:
            anyio.from_thread.run_sync(scope.cancel)
            while not is_cancelled():
                os.sched_yield()
            ended.append(True)

        with anyio.CancelScope() as scope:
            await run_stoppable(work)
        assert scope.cancelled_caught
        assert ended == [True]

    anyio.run(inside, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_cancelled_work_for_which_no_thread_was_free_never_begins(backend: str) -> None:
    begun: list[bool] = []

    async def inside() -> None:
        threads = anyio.to_thread.current_default_thread_limiter()
        for _ in range(int(threads.total_tokens)):
            threads.acquire_on_behalf_of_nowait(object())
        with anyio.move_on_after(0.01) as scope:
            await run_stoppable(lambda _: begun.append(True))
        assert scope.cancelled_caught

    anyio.run(inside, backend=backend)
    assert begun == []


def test_an_error_of_the_work_comes_as_it_is() -> None:
    def work(_: Any) -> None:
        raise PathRefused("outside")

    with pytest.raises(PathRefused, match="outside"):
        anyio.run(run_stoppable, work)
