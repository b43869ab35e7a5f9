"""Jobs that follow a call: none is lost, whoever gives them and whenever it ends."""

from __future__ import annotations

import functools
import threading

import pytest

from sandboxed_tools.sandbox.docker import later as module
from sandboxed_tools.sandbox.docker.later import Later


@pytest.mark.parametrize("is_expected", [True, False])
def test_job_runs_on_another_thread_whether_it_was_expected_or_not(is_expected: bool) -> None:
    later, ran, on = Later(), threading.Event(), list[int]()

    def job() -> None:
        on.append(threading.get_ident())
        ran.set()

    if is_expected:
        later.expect()
    later.put(job)
    assert ran.wait(60)
    assert on != [threading.get_ident()]
    later.close()
    assert later.pending == 0


def test_jobs_of_many_threads_all_run_and_each_once() -> None:
    later, ran = Later(), list[tuple[int, int]]()

    def give(number: int) -> None:
        for part in range(100):
            later.expect()
            later.put(functools.partial(ran.append, (number, part)))

    threads = [threading.Thread(target=give, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    later.close()
    assert sorted(ran) == [(number, part) for number in range(8) for part in range(100)]


def test_job_that_is_given_after_the_end_runs_at_once() -> None:
    later, ran = Later(), list[int]()
    later.close()
    later.put(lambda: ran.append(1))
    assert ran == [1]


def test_job_that_fails_is_logged_and_the_next_one_runs(caplog: pytest.LogCaptureFixture) -> None:
    later, ran = Later(), threading.Event()

    def fail() -> None:
        raise ValueError("a fault of the job")

    later.put(fail)
    later.put(ran.set)
    assert ran.wait(60)
    later.close()
    assert "a fault of the job" in caplog.text


def test_thread_that_has_rested_is_replaced_by_the_next_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REST_S", 0.01)
    monkeypatch.setattr(module, "AWAKE_S", 0.0)
    later = Later()
    for _ in range(20):
        ran = threading.Event()
        later.put(ran.set)
        assert ran.wait(60)
        threading.Event().wait(0.01)  # about as long as the rest, on either side of it
    later.close()
