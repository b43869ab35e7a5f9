"""What one process does can be seen from another, while it lives and no longer."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading

import anyio
import pytest
from tests.sandbox.docker.running import ENV, eventually

from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker.backend import DockerSandbox, StopRequest
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.sandbox.docker.status_file import FOLDER, read_statuses
from sandboxed_tools.sandbox.docker.surroundings import Caller
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.state import state_dir

pytestmark = pytest.mark.engine


def calls_of(pid: int) -> list[dict[str, object]]:
    return [call for one in read_statuses() if one.pid == pid for call in one.status["calls"]]


def test_running_call_is_shown_and_gone_when_the_sandbox_is_closed(
    engine: Engine, base_image: str
) -> None:
    box = DockerSandbox(engine, warm=False)
    stop = StopRequest()

    async def main() -> None:
        command = Command(("sleep", "100"), env=ENV)
        await box.run(SandboxSpec(base_image), command, stop=stop, caller=Caller(key="someone"))

    thread = threading.Thread(target=anyio.run, args=(main,))
    thread.start()
    try:
        eventually(lambda: any(call["state"] == "running" for call in calls_of(os.getpid())))
        (call,) = calls_of(os.getpid())
        assert (call["key"], call["image"]) == ("someone", base_image)
        assert call["container_id"]
    finally:
        stop.set()
        thread.join(20)
        box.close()
    assert not calls_of(os.getpid())
    assert not list((state_dir() / FOLDER).glob(f"{os.getpid()}-*"))


def test_status_of_a_killed_process_is_not_shown_and_its_file_removed(base_image: str) -> None:
    source = """
import anyio, sys
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker import DockerSandbox, find_engine
from sandboxed_tools.tool.command import Command

box = DockerSandbox(find_engine(), warm=False)
command = Command(("sleep", "100"), env={"PATH": "/bin:/usr/bin"})
anyio.run(box.run, SandboxSpec(sys.argv[1]), command)
"""
    owner = subprocess.Popen([sys.executable, "-c", source, base_image])
    try:
        eventually(lambda: any(call["state"] == "running" for call in calls_of(owner.pid)))
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait(10)
    assert not [one for one in read_statuses() if one.pid == owner.pid]
    assert not list((state_dir() / FOLDER).glob(f"{owner.pid}-*"))


def test_file_that_is_no_status_is_passed_over(base_image: str) -> None:
    import fcntl

    folder = state_dir() / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / "1-bad.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / "1-bad.json").write_text("[1, ")
        assert not [one for one in read_statuses() if one.pid == 1]
    assert not [one for one in read_statuses() if one.pid == 1]
    assert not (folder / "1-bad.json").exists()


def test_who_has_no_descriptor_left_takes_no_living_process_for_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = state_dir() / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = folder / f"{os.getpid()}-living.lock"

    def refused(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    draft = lock.with_suffix(".locking")
    with draft.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        draft.replace(lock)
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refused)
            read_statuses()
        assert lock.exists()
    read_statuses()
    assert not lock.exists()
