from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from tests.sandbox.docker.running import eventually

from sandboxed_tools.errors import Overloaded
from sandboxed_tools.sandbox.admission import Admission, AdmissionLimits
from sandboxed_tools.sandbox.budget import Budget, Budgets, Spent
from sandboxed_tools.sandbox.host_guard import HostGuard, HostLimits
from sandboxed_tools.sandbox.machine_slots import MachineSlots


def enter_in_order(gate: Admission, asked: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Let everybody ask while the gate is full, then let them in one by one; who came when."""
    order: list[tuple[str, int]] = []
    gate.enter()
    threads = []
    for number, (key, priority) in enumerate(asked):

        def one(key: str = key, priority: int = priority) -> None:
            gate.enter(key=key, priority=priority)
            order.append((key, priority))
            gate.leave()

        threads.append(threading.Thread(target=one))
        threads[-1].start()
        eventually(lambda number=number: gate.status().waiting == number + 1)  # type: ignore[misc]
    gate.leave()
    for thread in threads:
        thread.join(10)
    assert gate.status().running == 0
    return order


def test_no_more_calls_than_allowed_run_at_once() -> None:
    gate = Admission(AdmissionLimits(calls=3))
    most = running = 0
    lock = threading.Lock()

    def one() -> None:
        nonlocal most, running
        for _ in range(50):
            gate.enter()
            with lock:
                running += 1
                most = max(most, running)
            with lock:
                running -= 1
            gate.leave()

    threads = [threading.Thread(target=one) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most <= 3
    assert (gate.status().running, gate.status().waiting) == (0, 0)


def test_keys_take_turns() -> None:
    gate = Admission(AdmissionLimits(calls=1))
    order = enter_in_order(gate, [("many", 0)] * 4 + [("one", 0)])
    assert order.index(("one", 0)) == 1


def test_higher_priority_goes_first() -> None:
    gate = Admission(AdmissionLimits(calls=1))
    assert enter_in_order(gate, [("a", 0), ("b", 5), ("c", 1)]) == [("b", 5), ("c", 1), ("a", 0)]


def test_full_queue_is_refused_at_once_and_says_so() -> None:
    gate = Admission(AdmissionLimits(calls=1, queue=0))
    with pytest.raises(Overloaded) as refused:
        gate.enter()
    assert refused.value.what == "queue"


def wait_in(gate: Admission, asked: list[tuple[str, int]]) -> tuple[list[str], threading.Thread]:
    """Let everybody wait at a gate that is full; who was displaced, by key, and who waits still."""
    displaced: list[str] = []

    def one(key: str, priority: int) -> None:
        try:
            gate.enter(key=key, priority=priority)
        except Overloaded as error:
            displaced.append(f"{key}: {error.what}")
        else:
            gate.leave()

    threads = [threading.Thread(target=one, args=each) for each in asked]
    for number, thread in enumerate(threads):
        thread.start()
        eventually(lambda number=number: gate.status().waiting > number)  # type: ignore[misc]

    def join() -> None:
        for thread in threads:
            thread.join(60)

    return displaced, threading.Thread(target=join)


def test_full_queue_of_one_key_makes_room_for_another() -> None:
    gate = Admission(AdmissionLimits(calls=1, queue=4))
    gate.enter()
    displaced, end = wait_in(gate, [("many", 0)] * 4)
    is_in = threading.Event()

    def one() -> None:
        gate.enter(key="one")
        is_in.set()
        gate.leave()

    late = threading.Thread(target=one)
    late.start()
    eventually(lambda: displaced == ["many: queue"])
    assert gate.status().waiting == 4
    with pytest.raises(Overloaded):
        gate.enter(key="many")  # it has the most places still
    gate.leave()
    end.start()
    end.join(60)
    late.join(60)
    assert is_in.is_set()
    assert displaced == ["many: queue"]
    assert (gate.status().running, gate.status().waiting) == (0, 0)


def test_full_queue_makes_room_for_a_higher_priority_and_for_no_lower() -> None:
    gate = Admission(AdmissionLimits(calls=1, queue=2))
    gate.enter()
    displaced, end = wait_in(gate, [("low", 1), ("lowest", 0)])
    with pytest.raises(Overloaded) as refused:
        gate.enter(key="hopeless", priority=-1)
    assert refused.value.what == "queue"
    assert displaced == []

    def enter_first() -> None:
        gate.enter(priority=9)
        gate.leave()

    urgent = threading.Thread(target=enter_first)
    urgent.start()
    eventually(lambda: displaced == ["lowest: queue"])
    gate.leave()
    end.start()
    end.join(60)
    urgent.join(60)
    assert (gate.status().running, gate.status().waiting) == (0, 0)


def test_wait_has_a_deadline_that_names_what_was_full() -> None:
    gate = Admission(AdmissionLimits(calls=1, queue_s=0.05))
    gate.enter()
    with pytest.raises(Overloaded) as refused:
        gate.enter()
    assert refused.value.what == "calls"
    assert gate.status().waiting == 0
    gate.leave()
    assert gate.enter() < 1


def test_call_that_is_not_wanted_any_more_gives_up_its_place_in_the_queue() -> None:
    gate = Admission(AdmissionLimits(calls=1))
    gate.enter()
    with pytest.raises(Overloaded):
        gate.enter(is_wanted=lambda: False)
    assert gate.status().waiting == 0


def test_host_that_lacks_something_holds_calls_back_until_it_has_it_again() -> None:
    lacking = ["host memory"]
    gate = Admission(
        AdmissionLimits(calls=5, queue_s=0.05), host_is_full=lambda: lacking[0] if lacking else ""
    )
    gate.enter()  # the first call is let in: else nothing would ever run on a small host
    with pytest.raises(Overloaded) as refused:
        gate.enter()
    assert refused.value.what == "host memory"
    lacking.clear()
    gate.enter()
    assert gate.status().running == 2


def test_host_that_lacks_something_holds_the_first_call_back_while_others_run() -> None:
    others = [True]
    gate = Admission(
        AdmissionLimits(queue_s=0.05),
        host_is_full=lambda: "host memory",
        others_run=lambda: bool(others),
    )
    with pytest.raises(Overloaded) as refused:
        gate.enter()
    assert refused.value.what == "host memory"
    others.clear()
    gate.enter()
    gate.leave()


class CountedSlots(MachineSlots):
    tries = 0

    def take(self) -> bool:
        self.tries += 1
        return super().take()


def test_many_who_wait_do_not_try_the_machines_slots_each_for_itself(tmp_path: Path) -> None:
    other = MachineSlots(tmp_path, count=1)
    assert other.take()
    slots = CountedSlots(tmp_path, count=1)
    looks: list[float] = []

    def look() -> str:
        looks.append(time.monotonic())
        return ""

    gate = Admission(AdmissionLimits(queue_s=60), host_is_full=look, machine=slots)
    seen, end = wait_in(gate, [("one", 0)] * 20)
    looks.clear()
    slots.tries = 0
    eventually(lambda: len(looks) >= 100)
    assert slots.tries < 0.9 * len(looks)
    other.give_back()
    end.start()
    end.join(60)
    assert seen == []
    assert (gate.status().running, gate.status().waiting) == (0, 0)


def test_guard_names_what_this_host_lacks(tmp_path: Path) -> None:
    huge = 1 << 60
    assert HostGuard(HostLimits(memory_bytes=huge)).lacking() == "host memory"
    free = HostLimits(memory_bytes=0, memory_share=0, disk_bytes=huge, load_per_cpu=1e9)
    assert HostGuard(free, folders=(tmp_path,)).lacking() == "host disk"
    assert HostGuard(free, folders=(tmp_path / "not here",)).lacking() == ""
    never = HostLimits(memory_bytes=0, memory_share=0, disk_bytes=0, load_per_cpu=-1)
    assert HostGuard(never).lacking() == "host load"


def test_host_that_does_not_tell_its_figures_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("no /proc here")

    monkeypatch.setattr(psutil, "virtual_memory", fail)
    assert HostGuard().lacking() == "host figures"


@pytest.mark.parametrize(
    ("budget", "spent", "what"),
    [
        (Budget(calls=2), Spent(0, 0), "budget: calls"),
        (Budget(container_s=3), Spent(2, 0), "budget: container seconds"),
        (Budget(cpu_s=3), Spent(9, 2), "budget: processor seconds"),
    ],
)
def test_used_up_budget_refuses_its_key_and_no_other(
    budget: Budget, spent: Spent, what: str
) -> None:
    budgets = Budgets(budget)
    for _ in range(2):
        budgets.open_call("a")
        budgets.close_call("a", spent)
    with pytest.raises(Overloaded) as refused:
        budgets.open_call("a")
    assert refused.value.what == what
    budgets.open_call("b")


def test_running_calls_count_and_old_ones_are_forgotten() -> None:
    budgets = Budgets(Budget(calls=1, per_s=0.1))
    budgets.open_call("a")
    with pytest.raises(Overloaded):
        budgets.open_call("a")
    budgets.close_call("a", Spent(1, 1))

    def is_free() -> bool:
        try:
            budgets.open_call("a")
        except Overloaded:
            return False
        return True

    eventually(is_free)


def test_wall_clock_that_jumps_neither_fills_nor_empties_an_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = Admission(AdmissionLimits(calls=1, queue_s=60))
    budgets = Budgets(Budget(calls=2, per_s=3600))
    budgets.open_call("a")
    budgets.close_call("a", Spent(1, 1))
    for now in (0.0, 1e12):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        budgets.open_call("a")
        with pytest.raises(Overloaded):
            budgets.open_call("a")
        budgets.close_call("a", Spent(1, 1))
        with pytest.raises(Overloaded):
            budgets.open_call("a")
        budgets = Budgets(Budget(calls=2, per_s=3600))
        budgets.open_call("a")
        budgets.close_call("a", Spent(1, 1))
        assert gate.enter() < 30
        gate.leave()


def test_machine_slots_are_counted_across_processes_and_given_back_by_death(
    tmp_path: Path,
) -> None:
    source = """
import sys
from pathlib import Path
from sandboxed_tools.sandbox.machine_slots import MachineSlots
slots = MachineSlots(Path(sys.argv[1]), count=3)
print(slots.take(), slots.take(), flush=True)
sys.stdin.read()
"""
    other = subprocess.Popen(
        [sys.executable, "-c", source, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout is not None
    with other:
        try:
            assert other.stdout.readline() == "True True\n"
            slots = MachineSlots(tmp_path, count=3)
            assert (slots.take(), slots.take()) == (True, False)
        finally:
            other.kill()
            other.wait(10)
        assert (slots.take(), slots.take(), slots.take()) == (True, True, False)
        slots.give_back()
        assert slots.take()
        for _ in range(3):
            slots.give_back()


def test_gate_keeps_to_the_machines_count(tmp_path: Path) -> None:
    first = Admission(AdmissionLimits(), machine=MachineSlots(tmp_path, count=1))
    second = Admission(AdmissionLimits(queue_s=0.05), machine=MachineSlots(tmp_path, count=1))
    first.enter()
    with pytest.raises(Overloaded) as refused:
        second.enter()
    assert refused.value.what == "calls on this machine"
    first.leave()
    second.enter()
    second.leave()


def test_count_that_cannot_be_kept_lets_nobody_in_and_loses_no_place(tmp_path: Path) -> None:
    folder = tmp_path / "slots"
    gate = Admission(AdmissionLimits(queue_s=0.05), machine=MachineSlots(folder, count=2))
    gate.enter()
    (folder / "0").unlink()
    folder.rmdir()
    for _ in range(2):
        with pytest.raises(Overloaded) as refused:
            gate.enter()
        assert refused.value.what == "calls on this machine"
    assert (gate.status().running, gate.status().waiting) == (1, 0)
    gate.leave()
    folder.mkdir()
    (folder / "0").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Overloaded):
        gate.enter()
    assert not (tmp_path / "elsewhere").exists()
    (folder / "0").unlink()
    gate.enter()
    gate.leave()
    assert (gate.status().running, gate.status().waiting) == (0, 0)
