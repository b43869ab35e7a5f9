"""Background work waits for a quiet moment, for as long as it can wait."""

from __future__ import annotations

import itertools
import threading

from sandboxed_tools.sandbox.docker.quiet import Quiet

LONG_S = 3600.0


def always() -> bool:
    return True


def test_without_a_call_nobody_waits() -> None:
    Quiet().wait(at_most_s=LONG_S, can_wait=always)


def test_a_running_call_is_waited_for_until_the_work_cannot_wait_any_more() -> None:
    quiet = Quiet()
    quiet.begin()
    asked = itertools.count()
    quiet.wait(at_most_s=LONG_S, can_wait=lambda: next(asked) < 5)
    assert next(asked) == 6


def test_a_running_call_is_not_waited_for_longer_than_stated() -> None:
    quiet = Quiet()
    quiet.begin()
    quiet.wait(at_most_s=0.0, can_wait=always)


def test_a_moment_after_the_last_call_work_goes_on() -> None:
    quiet = Quiet()
    quiet.begin()
    waiting = threading.Event()

    def can_wait() -> bool:
        waiting.set()
        return True

    worker = threading.Thread(target=quiet.wait, kwargs={"at_most_s": LONG_S, "can_wait": can_wait})
    worker.start()
    assert waiting.wait(60)
    quiet.end()
    worker.join(60)
    assert not worker.is_alive()


def test_at_the_end_nobody_waits() -> None:
    quiet = Quiet()
    quiet.begin()
    quiet.open()
    quiet.wait(at_most_s=LONG_S, can_wait=always)
