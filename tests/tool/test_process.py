"""A process is named so that its death can be proved, and nothing else is taken for it."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import pytest

from sandboxed_tools.tool.process import ProcessName

PRINT = "from sandboxed_tools.tool.process import ProcessName; print(ProcessName.current())"


def test_this_process_is_alive_and_reads_back() -> None:
    name = ProcessName.current()
    assert name.life() == "alive"
    assert name.pid == str(os.getpid())
    assert ProcessName.parse(str(name)) == name


def test_a_process_that_has_ended_is_dead() -> None:
    printed = subprocess.run(
        [sys.executable, "-c", PRINT], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    name = ProcessName.parse(printed.strip())
    assert name is not None
    assert name.life() == "dead"


def test_a_zombie_is_dead() -> None:
    process = subprocess.Popen([sys.executable, "-c", PRINT], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        name = ProcessName.parse(process.stdout.read().strip())
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert name is not None
        assert name.life() == "dead"


def test_a_reused_pid_is_another_process() -> None:
    other = dataclasses.replace(ProcessName.current(), started="1")
    assert other.life() == "dead"


def test_an_earlier_boot_is_dead() -> None:
    assert dataclasses.replace(ProcessName.current(), boot="0" * 16).life() == "dead"


@pytest.mark.parametrize("part", ["machine", "pid_namespace", "time_namespace"])
def test_what_runs_elsewhere_is_unknown(part: str) -> None:
    elsewhere = dataclasses.replace(ProcessName.current(), **{part: "1"}, started="1")
    assert elsewhere.life() == "unknown"


@pytest.mark.parametrize("part", ["boot", "pid_namespace", "time_namespace", "started", "pid"])
def test_what_is_not_known_proves_nothing(part: str) -> None:
    vague = dataclasses.replace(ProcessName.current(), **{part: "unknown"})
    assert vague.life() == "unknown"


@pytest.mark.parametrize(
    "text", ["", "a", "a-b-c-d-e", "a-b-c-d-e-f-g", "a-b-c-d-e-", "a-b-c-d-/-f"]
)
def test_other_text_is_no_name(text: str) -> None:
    assert ProcessName.parse(text) is None
