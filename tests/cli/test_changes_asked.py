"""On a terminal a command's changes are asked about; every answer leaves its exit code alone."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from sandboxed_tools.workspace import ChangeStore

pytestmark = [
    pytest.mark.engine,
    pytest.mark.usefixtures("base_image"),
    pytest.mark.timeout(600),  # each test is several programs, one after the other
]

INTERRUPT = b"\x03"
QUESTION = b"[k]eep [k]: "
COMMAND = "echo more >> a.txt; echo new > new; exit 7"
PROTECTED = "echo x > .envrc; exit 7"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    return folder


class Terminal:
    """``sandboxed-tools run`` on a terminal of its own."""

    def __init__(self, workspace: Path, command: str) -> None:
        self._ours, theirs = pty.openpty()
        words = ("run", "-w", workspace, "--", command)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sandboxed_tools.cli.main", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env={**os.environ, "TERM": "dumb", "NO_COLOR": "1"},
            # A test run in the background of a shell inherits an interruption that is ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        os.close(theirs)
        self.seen = b""

    def answer(self, text: bytes) -> None:
        """Wait until it has asked once more, then type."""
        asked = self.seen.count(QUESTION)
        while self.seen.count(QUESTION) == asked:
            self.seen += os.read(self._ours, 65_536)
        if text == INTERRUPT:
            # Between showing the question and waiting for its answer a signal is only noted.
            while not self._waits_for_an_answer():
                time.sleep(0.01)
            os.kill(self._process.pid, signal.SIGINT)
        else:
            os.write(self._ours, text)

    def _waits_for_an_answer(self) -> bool:
        if psutil.Process(self._process.pid).status() != psutil.STATUS_SLEEPING:
            return False
        # Nor for another of its threads.
        return "futex" not in Path(f"/proc/{self._process.pid}/wchan").read_text()

    def end(self) -> tuple[int, str]:
        """How it ended, and all that was to be seen."""
        try:
            while data := os.read(self._ours, 65_536):
                self.seen += data
        except OSError:
            pass  # how Linux says that the other end has been closed (EIO)
        finally:
            os.close(self._ours)
            code = self._process.wait(300)
        return code, self.seen.decode("utf-8", "replace")


def asked(workspace: Path, answers: Sequence[bytes], command: str = COMMAND) -> str:
    terminal = Terminal(workspace, command)
    for answer in answers:
        terminal.answer(answer)
    code, seen = terminal.end()
    assert code == 7, seen
    assert "Traceback" not in seen
    return seen


def status(workspace: Path) -> list[str]:
    return [item.status for item in ChangeStore().sets(workspace=workspace)]


def test_looked_at_and_applied(workspace: Path) -> None:
    seen = asked(workspace, [b"what?\n", b"d\n", b"a\n"])
    assert "+more" in seen
    assert "applied" in seen
    assert (workspace / "a.txt").read_text() == "a\nmore\n"
    assert status(workspace) == ["applied"]


def test_forgotten(workspace: Path) -> None:
    seen = asked(workspace, [b"FORGET\n"])
    assert "discarded" in seen
    assert status(workspace) == []
    assert not (workspace / "new").exists()


@pytest.mark.parametrize("answer", [b"\n", b"k\n", b"\x04", INTERRUPT])
def test_kept_and_said_how_to_decide_later(answer: bytes, workspace: Path) -> None:
    seen = asked(workspace, [answer])
    assert "apply it: sandboxed-tools changes apply" in seen
    assert status(workspace) == ["held"]
    assert (workspace / "a.txt").read_text() == "a\n"


def test_what_cannot_be_applied_stays_held_and_says_what_helps(workspace: Path) -> None:
    seen = asked(workspace, [b"a\n"], PROTECTED)
    assert "--allow-protected" in seen
    assert "apply it: sandboxed-tools changes apply" in seen
    assert status(workspace) == ["held"]
