"""``ps``: every process of this installation, and its running calls."""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from tests.cli.command_line import command_line

from sandboxed_tools.sandbox.docker.images import image_tag
from sandboxed_tools.sandbox.docker.status_file import FOLDER
from sandboxed_tools.tool.state import STATE_DIR_VARIABLE, installation_id, state_dir

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("engine")]


@pytest.fixture(autouse=True)
def own_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers that other tests keep ready are none of this installation's."""
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "state"))


def test_a_running_call_of_another_process_is_seen() -> None:
    main = [sys.executable, "-m", "sandboxed_tools.cli.main"]
    call = subprocess.Popen([*main, "run", "--", "echo up; sleep 60"], stdout=subprocess.PIPE)
    watch = subprocess.Popen([*main, "ps", "--watch", "--json"], stdout=subprocess.PIPE)
    try:
        assert call.stdout is not None
        assert watch.stdout is not None
        assert call.stdout.readline() == b"up\n"
        deadline = time.monotonic() + 60
        containers: list[dict[str, Any]] = []
        # The command speaks before the engine's list says that its container runs.
        while time.monotonic() < deadline and [c["state"] for c in containers] != ["running"]:
            found = json.loads(watch.stdout.readline())
            running = [item for item in found["processes"] if item["pid"] == call.pid]
            if running and running[0]["running"] == 1:
                containers = [item for item in found["objects"] if item["type"] == "container"]
        assert [(c["state"], c["owner"]) for c in containers] == [("running", "alive")]
        cpu, memory = found["cpu_s"], found["memory_bytes"]
        assert set(cpu) == set(memory)
        shown = command_line("ps").text
        assert str(call.pid) in shown
        assert containers[0]["id"][:12] in shown
    finally:
        for process in (call, watch):
            process.terminate()
            process.wait(timeout=90)
            assert process.stdout is not None
            process.stdout.close()
    assert command_line("ps", "--json").object == []


HOSTILE = "\x1b]0;owned\x07\x1b[31mred\u202e\nsecond line"


@pytest.fixture
def hostile_status() -> Iterator[None]:
    """A living process of this installation that says whatever it likes."""
    folder = state_dir() / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    call = {"state": HOSTILE, "began_at": HOSTILE, "key": HOSTILE, "image": [HOSTILE]}
    status = {
        "running": HOSTILE,
        "waiting": None,
        "held_back_by": HOSTILE,
        "shelves": [7, {"ready": HOSTILE}, {"ready": 3}],
        "calls": [call, HOSTILE, {"container_id": {"a": HOSTILE}}],
    }
    files = [folder / "77-hostile.lock", folder / "77-hostile.json"]
    with files[0].open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        files[1].write_text(json.dumps(status))
        yield
    for file in files:
        file.unlink(missing_ok=True)


@pytest.mark.usefixtures("hostile_status")
def test_what_another_process_says_is_shown_as_data(api: docker.APIClient, base_image: str) -> None:
    labels = {
        "sandboxed-tools.installation": installation_id(),
        "sandboxed-tools.kind": HOSTILE,
        "sandboxed-tools.pid": "1; rm -rf /",
    }
    made = api.create_container(image_tag(base_image), ["true"], labels=labels)["Id"]
    try:
        plain = command_line("ps")
        assert plain.code == 0
        assert not set("\x1b\x07\u202e") & set(plain.text)
        assert "\nsecond line" not in plain.text
        assert made[:12] in plain.text
        assert "unknown" in plain.text
        (listed,) = command_line("ps", "--json").object
        assert (listed["id"], listed["owner"]) == (made, "unknown")
    finally:
        api.remove_container(made, force=True)


def test_an_interruption_ends_the_watching_quietly() -> None:
    watch = subprocess.Popen(
        [sys.executable, "-m", "sandboxed_tools.cli.main", "ps", "--watch", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A test run in the background of a shell inherits an interruption that is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert watch.stdout is not None
    assert json.loads(watch.stdout.readline()).keys() >= {"objects", "processes"}
    watch.send_signal(signal.SIGINT)
    _, errors = watch.communicate(timeout=60)
    assert (watch.returncode, errors) == (130, b"")
