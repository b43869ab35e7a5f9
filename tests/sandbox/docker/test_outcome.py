from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from sandboxed_tools.errors import EngineFault
from sandboxed_tools.sandbox.docker.outcome import EngineState, classify
from sandboxed_tools.sandbox.docker.protocol import Report
from sandboxed_tools.sandbox.docker.pump import Ending

REPORT = Report("exit", 0, None, 0, 0, 3, 4096, 0.1, 0.0, False, "/")
KILLED = replace(REPORT, exit_code=None, signal=signal.SIGKILL)


def test_exit_code_that_looks_like_a_kill_is_an_exit() -> None:
    outcome = classify("ended", replace(REPORT, exit_code=137), None)
    assert (outcome.status, outcome.exit_code, outcome.signal) == ("exited", 137, None)


def test_own_kill_without_the_kernels_count_is_a_signal_not_oom() -> None:
    outcome = classify("ended", KILLED, None)
    assert (outcome.status, outcome.signal) == ("signalled", signal.SIGKILL)
    assert not outcome.limits_hit


def test_kill_with_the_kernels_count_is_oom() -> None:
    outcome = classify("ended", replace(KILLED, oom_kills=1), None)
    assert (outcome.status, outcome.limits_hit) == ("oom", frozenset({"memory"}))


def test_child_killed_for_memory_is_a_limit_touched_and_an_ordinary_exit() -> None:
    outcome = classify("ended", replace(REPORT, oom_kills=2), None)
    assert (outcome.status, outcome.exit_code, outcome.limits_hit) == (
        "exited",
        0,
        frozenset({"memory"}),
    )


def test_unknown_figures_are_no_limits() -> None:
    unknown = replace(REPORT, oom_kills=None, pids_refused=None, throttled_s=None)
    assert classify("ended", unknown, None).limits_hit == frozenset()


@pytest.mark.parametrize(
    ("ending", "status", "limit"),
    [
        ("wall", "timeout", "wall"),
        ("idle", "idle_timeout", "idle"),
        ("output", "output_limit", "output"),
        ("disk", "disk_limit", "disk"),
    ],
)
def test_our_own_clocks_and_counts_name_the_status(ending: Ending, status: str, limit: str) -> None:
    for report in (None, replace(KILLED, why="kill", oom_kills=0)):
        outcome = classify(ending, report, None)
        assert (outcome.status, outcome.limits_hit) == (status, frozenset({limit}))


def test_command_that_ended_at_its_deadline_by_itself_has_exited() -> None:
    assert classify("wall", REPORT, None).status == "exited"


def test_too_much_output_is_too_much_even_when_the_command_ended_by_itself() -> None:
    assert classify("output", REPORT, None).status == "output_limit"


@pytest.mark.parametrize("why", ["lease", "protocol", "start"])
def test_launcher_that_ended_for_reasons_of_its_own_is_a_fault(why: str) -> None:
    with pytest.raises(EngineFault):
        classify("ended", replace(KILLED, why=why), None)


def test_lost_call_whose_container_is_gone_tells_what_the_engine_saw() -> None:
    def status(state: EngineState) -> str:
        return classify("lost", None, state).status

    assert status(EngineState(running=False, exit_code=137, oom_killed=True)) == "oom"
    killed = EngineState(running=False, exit_code=137, oom_killed=False, was_killed=True)
    assert status(killed) == "signalled"
    assert status(EngineState(running=False, exit_code=3, oom_killed=False)) == "exited"


@pytest.mark.parametrize("exit_code", [125, 137])
def test_end_that_the_launcher_may_have_made_itself_is_nobodys_exit_code(exit_code: int) -> None:
    # It kills the command when the connection is lost; the command did not end by that signal.
    state = EngineState(running=False, exit_code=exit_code, oom_killed=False)
    with pytest.raises(EngineFault):
        classify("lost", None, state)
    assert classify("lost", None, state, has_launcher=False).status in ("exited", "signalled")


@pytest.mark.parametrize("exit_code", [0, 3, 139])
@pytest.mark.parametrize("oom_killed", [False, True])
def test_only_a_report_that_was_to_be_expected_is_missed(exit_code: int, oom_killed: bool) -> None:
    state = EngineState(running=False, exit_code=exit_code, oom_killed=oom_killed)
    with_launcher = classify("ended", None, state)
    without = classify("ended", None, state, has_launcher=False)
    assert with_launcher.warnings
    assert without.warnings == ()
    assert replace(with_launcher, warnings=()) == without


def test_lost_call_that_nobody_can_explain_is_a_fault() -> None:
    for state in (None, EngineState(running=True, exit_code=None, oom_killed=False)):
        with pytest.raises(EngineFault):
            classify("lost", None, state)
