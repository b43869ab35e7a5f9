"""The table of a run: what did not hold, broke off or never came is not taken for success."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.vm.machine import StepResult, read_results
from tests.vm.report import Row, rows, show


def step(name: str, **values: object) -> StepResult:
    defaults: dict[str, object] = {
        "exit_code": 0,
        "timed_out": False,
        "seconds": 1.0,
        "stdout": "",
        "stderr": "",
        "file": None,
    }
    return StepResult(name, **{**defaults, **values})  # type: ignore[arg-type]


def only_row(result: StepResult) -> Row:
    (row,) = rows([result.name], [result])
    return row


def check(check_id: str, outcome: str) -> dict[str, str]:
    return {"id": check_id, "outcome": outcome, "detail": "why it is so"}


def test_a_step_that_the_machine_never_got_to_has_not_held() -> None:
    assert [row.held for row in rows(["install", "abuse"], [step("install")])] == [True, False]


def test_a_step_that_failed_or_ran_into_its_deadline_has_not_held() -> None:
    assert not only_row(step("install", exit_code=1, stderr="no space")).held
    late = only_row(step("install", exit_code=-9, timed_out=True))
    assert (late.held, "deadline" in late.result) == (False, True)


def test_an_answer_that_cannot_be_read_has_not_held() -> None:
    for stdout in ("", "{", "{}", "[]", '{"results": 3}'):
        assert not only_row(step("conformance", stdout=stdout)).held
    assert not only_row(step("abuse", file="<testsuites")).held


def test_checks_are_counted_by_their_group_and_failures_are_shown() -> None:
    results = [
        check("limits.a", "passed"),
        check("limits.b", "failed"),
        check("stdin.a", "known_difference"),
    ]
    answer = json.dumps({"ok": False, "results": results})
    row = only_row(step("conformance", exit_code=1, stdout=answer))
    assert not row.held
    assert row.result.splitlines() == ["1 of 3 checks held", "limits 1/2, stdin 0/1"]
    assert row.details == ("limits.b: why it is so",)


def test_a_report_of_tests_is_counted_and_its_failures_are_shown() -> None:
    junit = (
        "<testsuites><testsuite><testcase name='a'/><testcase name='b'><skipped/></testcase>"
        "<testcase name='c'><failure message='no'/><error message='nor this'/></testcase>"
        "</testsuite></testsuites>"
    )
    row = only_row(step("abuse", exit_code=1, file=junit))
    assert (row.held, row.result) == (False, "1 passed, 1 failed, 1 skipped")
    assert row.details == ("c: no",)


def test_tests_that_were_all_skipped_have_proved_nothing() -> None:
    case = "<testcase name='a'><skipped/></testcase>"
    row = only_row(step("apparmor", file=f"<testsuites><testsuite>{case}</testsuite></testsuites>"))
    assert (row.held, row.result) == (False, "0 passed, 0 failed, 1 skipped")


def test_a_result_that_broke_off_is_none(tmp_path: Path) -> None:
    whole = json.dumps({**{f: None for f in StepResult.__slots__}, "name": "install"})
    (tmp_path / "results").write_text(f"{whole}\n{whole[:20]}")
    assert [result.name for result in read_results(tmp_path / "results")] == ["install"]


def test_the_table_shows_what_came_from_the_machine_as_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show([Row("abuse", False, "1 failed", details=("\x1b]0;title\x07[bold]as it is",))])
    shown = capsys.readouterr().out
    assert "[bold]as it is" in shown
    assert "\x1b]0" not in shown
