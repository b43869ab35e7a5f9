"""What a call may stop waiting for."""

from __future__ import annotations

import threading

import pytest

from sandboxed_tools.errors import SandboxUnavailable
from sandboxed_tools.sandbox.docker.errands import Errands


def test_result_and_error_come_back_from_another_thread() -> None:
    errands = Errands()
    here = threading.current_thread()
    assert errands.run(threading.current_thread, is_wanted=lambda: True) is not here

    def fail() -> None:
        raise LookupError("not there")

    with pytest.raises(LookupError, match="not there"):
        errands.run(fail, is_wanted=lambda: True)
    assert errands.close(timeout_s=60)


def test_what_nobody_wants_is_not_waited_for_and_its_late_result_is_given_away() -> None:
    errands, go_on = Errands(), threading.Event()
    given_away: list[str] = []

    def slow() -> str:
        go_on.wait(60)
        return "a container"

    with pytest.raises(SandboxUnavailable):
        errands.run(slow, is_wanted=lambda: False, give_away=given_away.append)
    assert not errands.close(timeout_s=0.05)
    assert given_away == []
    go_on.set()
    assert errands.close(timeout_s=60)
    assert given_away == ["a container"]
