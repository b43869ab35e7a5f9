"""``ps``: every process of this installation, and its running calls."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import pytest
from tests.cli.command_line import command_line

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("engine")]


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
        assert str(call.pid) in command_line("ps").text
    finally:
        for process in (call, watch):
            process.terminate()
            process.wait(timeout=30)
            assert process.stdout is not None
            process.stdout.close()
    assert command_line("ps", "--json").object == []
