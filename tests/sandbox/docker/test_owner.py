"""Ownership labels: death must be proved, and nothing is guessed from labels."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxed_tools.sandbox.docker.owner import LABEL_PREFIX, Owner, Ownership


@pytest.fixture
def me() -> Owner:
    return Owner.current()


def owner_of(pid: int, me: Owner) -> Owner:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        started = file.read().rpartition(")")[2].split()[19]
    return replace(me, pid=pid, started=started)


def test_labels_can_be_read_back(me: Owner) -> None:
    begun = int(time.time())
    read = Ownership.from_labels(me.labels(deadline_s=90, kind="call"))
    assert read is not None
    assert read.owner == me
    assert read.kind == "call"
    assert begun <= read.created <= time.time()
    assert read.deadline - read.created in {90, 91}


def test_this_process_is_alive(me: Owner) -> None:
    assert me.life(seen_from=me) == "alive"


def test_a_fork_is_another_owner(me: Owner) -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, str(Owner.current().pid).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(writing)
    with os.fdopen(reading) as file:
        assert int(file.read()) == pid != me.pid


def test_a_killed_process_is_dead_before_and_after_it_is_reaped(me: Owner) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        owner = owner_of(child.pid, me)
        assert owner.life(seen_from=me) == "alive"
        child.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert owner.life(seen_from=me) == "dead"
        child.wait()
        assert owner.life(seen_from=me) == "dead"


def test_a_process_whose_first_thread_ended_is_still_alive(me: Owner) -> None:
    script = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=lambda: (print('up', flush=True), input())).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"up\n"
            owner = owner_of(child.pid, me)
            deadline = time.monotonic() + 10
            while _state(child.pid) != "Z" and time.monotonic() < deadline:
                time.sleep(0.01)
            assert _state(child.pid) == "Z"
            assert owner.life(seen_from=me) == "alive"
        finally:
            child.kill()


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0]


def test_a_reused_pid_does_not_look_alive(me: Owner) -> None:
    earlier = replace(me, started=str(int(me.started) - 1))
    assert earlier.life(seen_from=me) == "dead"


def test_a_process_of_an_earlier_boot_is_dead(me: Owner) -> None:
    assert replace(me, boot="0" * 36).life(seen_from=me) == "dead"


@pytest.mark.parametrize(
    "change",
    [
        {"installation": "f" * 32},
        {"machine": "f" * 32},
        {"machine": "f" * 32, "boot": "0" * 36},
        {"pid_namespace": "1", "pid": 999_999_999},
        {"time_namespace": "1", "started": "1"},
        {"boot": "unknown"},
        {"started": "unknown", "pid": 999_999_999},
        {"pid": 0},
        {"pid": 2**70},
    ],
)
def test_what_cannot_be_proved_is_unknown(me: Owner, change: dict[str, object]) -> None:
    stranger = replace(me, **change)  # type: ignore[arg-type]
    assert stranger.life(seen_from=me) == "unknown"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pid", "-1"),
        ("pid", "1_0"),
        ("pid", "٣"),
        ("pid", "9" * 40),
        ("pid", ""),
        ("deadline", "inf"),
        ("deadline", "1e9"),
        ("created", " 1"),
        ("schema", "2"),
        ("boot", ""),
        ("boot", "a\nb"),
        ("machine", "x" * 200),
    ],
)
def test_a_malformed_label_makes_the_whole_set_unreadable(me: Owner, name: str, value: str) -> None:
    labels = me.labels(deadline_s=1, kind="call") | {LABEL_PREFIX + name: value}
    assert Ownership.from_labels(labels) is None


@given(missing=st.sampled_from(sorted(Owner.current().labels(deadline_s=1, kind="call"))))
def test_a_missing_label_makes_the_whole_set_unreadable(missing: str) -> None:
    labels = Owner.current().labels(deadline_s=1, kind="call")
    del labels[missing]
    assert Ownership.from_labels(labels) is None


@given(st.dictionaries(st.sampled_from(["pid", "boot", "x"]).map(LABEL_PREFIX.__add__), st.text()))
def test_foreign_labels_never_raise(labels: dict[str, str]) -> None:
    assert Ownership.from_labels(labels) is None
