"""What others do while a set is applied: writers, deciders, and calls on the same workspace."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from sandboxed_tools.errors import ChangeSetNotFound
from sandboxed_tools.workspace.apply import (
    Decision,
    apply_set,
    discard_set,
    recover,
    undo_set,
)
from sandboxed_tools.workspace.change_store import ChangeStore

from .conftest import Call, picture
from .test_killed_apply import apply_in, killed_at

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts overlays")

DEADLINE_S = 60.0
WRITER = """
import os, sys
# One open file, as a log has it: what is written goes where the file goes.
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
number = 0
while True:
    os.write(fd, b"%d\\n" % number)
    print(number, flush=True)
    number += 1
    if not sys.stdin.readline():
        break
"""


@pytest.fixture(params=["overlay", "copy"])
def choice(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Writer:
    """A process of the host that has a file open, and writes when it is told to."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._next()

    def write(self) -> None:
        """Have one more line written, and wait until it is."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._next()

    def _next(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline()

    def end(self) -> None:
        self._process.communicate("", timeout=DEADLINE_S)


@contextmanager
def writer(path: Path) -> Iterator[Writer]:
    made = Writer(path)
    try:
        yield made
    finally:
        made.end()


@pytest.mark.parametrize("moment", range(8))
def test_a_file_that_is_being_written_is_in_the_workspace_or_in_the_undo_whole(
    moment: int, choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    log = workspace / "secret.txt"
    with writer(log) as host:
        called = call("echo call >> secret.txt; echo x > docs/new; rm docs/a.md", view=choice)
        old = log.read_text()
        steps = iter(range(100))

        def write() -> None:
            if next(steps) == moment:
                host.write()

        decision = apply_set(store, called.id, on_step=write)
        written = next(steps) > moment
        if not decision.done:
            assert log.read_text() == f"{old}1\n"
            assert (workspace / "docs" / "a.md").exists()
            assert not (workspace / "docs" / "new").exists()
            return
        # The set is in whole, and what the writer added is kept with what was replaced.
        assert log.read_text() == f"{old}call\n"
        host.write()
        assert log.read_text() == f"{old}call\n"
        assert undo_set(store, called.id, force=True).done
        more = ["1\n", "2\n"] if written else ["1\n"]
        assert log.read_text() == old + "".join(more)


def test_a_writer_that_never_stops_is_a_conflict_and_harms_nothing(
    choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    log = workspace / "secret.txt"
    with writer(log) as host:
        called = call("echo call >> secret.txt; rm keep.txt", view=choice, meanwhile=host.write)
        for _ in range(3):
            decision = apply_set(store, called.id)
            assert {problem.kind for problem in decision.problems} == {"conflict"}
            host.write()
    assert log.read_text().endswith("0\n1\n2\n3\n4\n")
    assert (workspace / "keep.txt").exists()


def in_a_thread(work: Callable[[], Decision]) -> threading.Thread:
    def run() -> None:
        with suppress(ChangeSetNotFound):
            work()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.parametrize("decide", [discard_set, undo_set, apply_set])
def test_no_other_decision_comes_in_between(
    decide: Callable[[ChangeStore, str], Decision],
    choice: str,
    call: Call,
    workspace: Path,
    store: ChangeStore,
) -> None:
    before = picture(workspace)
    called = call("echo call >> secret.txt; echo x > docs/new; rm docs/a.md", view=choice)
    steps = iter(range(100))
    started: list[threading.Thread] = []
    states: list[str] = []

    def other() -> None:
        number = next(steps)
        if number == 3:
            started.append(in_a_thread(lambda: decide(ChangeStore(), called.id)))
        if number > 3:
            # Give the other one every chance to come in between.
            deadline = time.monotonic() + 0.2
            while started[0].is_alive() and time.monotonic() < deadline:
                os.sched_yield()
            states.append(store.get(called.id).status)

    assert apply_set(store, called.id, on_step=other).done
    started[0].join(DEADLINE_S)
    assert not started[0].is_alive()
    assert set(states) <= {"applying"}
    if decide is undo_set:
        assert picture(workspace) == before
    else:
        assert (workspace / "secret.txt").read_text().endswith("call\n")
        assert not (workspace / "docs" / "a.md").exists()


@pytest.mark.parametrize("step", [1, 3, 5])
@pytest.mark.parametrize("decide", [discard_set, undo_set, apply_set])
def test_a_set_that_was_cut_off_is_finished_before_anything_else_is_decided(
    decide: Callable[[ChangeStore, str], Decision],
    step: int,
    call: Call,
    workspace: Path,
    store: ChangeStore,
) -> None:
    before = picture(workspace)
    called = call("echo call >> secret.txt; echo x > docs/new; rm docs/a.md")
    assert killed_at(step, lambda on_step: apply_in(called.id, on_step))
    assert decide(store, called.id).done == (step > 1 or decide is not undo_set)
    if decide is undo_set or (decide is discard_set and step == 1):
        assert picture(workspace) == before
    else:
        assert (workspace / "secret.txt").read_text().endswith("call\n")
        assert sorted(os.listdir(workspace / "docs")) == ["b.md", "new"]
    assert not recover(store)


def test_more_was_kept_than_the_set_speaks_of(
    choice: str, call: Call, workspace: Path, store: ChangeStore
) -> None:
    before = picture(workspace)
    called = call("mkdir -p new/deep; echo x > new/deep/file; echo y > harmless", view=choice)
    (store.upper(called.id) / "new" / "deep" / "more").write_text("never shown\n")
    decision = apply_set(store, called.id, force=True, allow_protected=True)
    assert [(item.path, item.kind) for item in decision.problems] == [(b"new/deep", "refused")]
    assert "more was kept" in str(decision.problems[0])
    assert picture(workspace) == before
    # What the set does not speak of is not brought by a part of it either.
    part = apply_set(store, called.id, only=("new",))
    assert not part.done
    assert apply_set(store, called.id, only=("harmless",)).done
    assert not (workspace / "new").exists()


def test_a_whiteout_in_a_new_folder_is_more_than_the_set_speaks_of(
    call: Call, workspace: Path, store: ChangeStore
) -> None:
    called = call("mkdir new; echo x > new/file")
    os.mknod(store.upper(called.id) / "new" / "ghost", 0o020000, 0)
    decision = apply_set(store, called.id, force=True, allow_protected=True)
    assert [problem.kind for problem in decision.problems] == ["refused"]
    assert not (workspace / "new").exists()
