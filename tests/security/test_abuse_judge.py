"""The judge of the corpus tells a held case from one that got through."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.security.abuse import ROWS, Row, Seen, Twin, faults

from sandboxed_tools.tool import ExecResult

TWIN = Twin(twin="true", error="Operation not permitted")
GOOD: dict[str, tuple[Row, ExecResult]] = {
    "denied": (
        Row("d", "escape", "x", "denied", output_lacks=("PWNED",), twin=TWIN),
        ExecResult("exited", exit_code=1, stdout=b"mount: Operation not permitted\n"),
    ),
    "killed": (Row("k", "process", "x", "killed", max_seconds=9), ExecResult("timeout")),
    "limited": (
        Row("l", "memory", "x", "limited"),
        ExecResult("exited", exit_code=0, limits_hit=frozenset({"pids"})),
    ),
    "truncated": (Row("t", "output", "x", "truncated"), ExecResult("output_limit", truncated=True)),
    "ok": (
        Row("o", "output", "x", "ok", output_has_any=("end",), rc=7),
        ExecResult("exited", exit_code=7, stdout=b"end\n"),
    ),
    "residual": (Row("r", "info", "x", "residual"), ExecResult("exited", exit_code=0)),
    "contained": (
        Row("c", "cpu", "x", "contained", output_lacks=("out",)),
        ExecResult("timeout", stdout=b"in\n"),
    ),
}


@pytest.mark.parametrize("outcome", GOOD)
def test_a_case_that_was_held_has_no_fault(outcome: str) -> None:
    row, result = GOOD[outcome]
    assert list(faults(row, Seen(result, 1.0))) == []


@pytest.mark.parametrize(
    ("outcome", "change"),
    [
        ("denied", {"stdout": b"PWNED Operation not permitted"}),
        ("denied", {"stdout": b"nothing was said"}),
        ("denied", {"status": "timeout"}),
        ("killed", {"status": "exited", "exit_code": 0}),
        ("killed", {"status": "oom"}),
        ("limited", {"limits_hit": frozenset()}),
        ("limited", {"limits_hit": frozenset({"output_kept"})}),
        ("truncated", {"truncated": False}),
        ("ok", {"exit_code": 0}),
        ("ok", {"status": "signalled", "exit_code": None, "signal": 7}),
        ("ok", {"stdout": b"cut"}),
        ("ok", {"limits_hit": frozenset({"memory"})}),
        ("residual", {"status": "timeout"}),
        ("contained", {"stdout": b"got out\n"}),
    ],
)
def test_a_case_that_got_through_has_a_fault(outcome: str, change: dict[str, Any]) -> None:
    row, result = GOOD[outcome]
    assert list(faults(row, Seen(replace(result, **change), 1.0)))


def test_a_case_that_took_too_long_has_a_fault() -> None:
    row, result = GOOD["killed"]
    assert list(faults(row, Seen(result, 9.5)))


def test_a_denial_without_a_twin_is_a_fault() -> None:
    row, result = GOOD["denied"]
    assert list(faults(replace(row, twin=Twin()), Seen(result, 1.0)))


def test_an_outcome_that_nobody_knows_is_a_fault() -> None:
    row, result = GOOD["ok"]
    assert list(faults(replace(row, outcome="fine"), Seen(result, 1.0)))


def test_every_refusal_of_the_corpus_has_its_twin_and_names_its_error() -> None:
    denied = [row for row in ROWS if row.outcome == "denied"]
    assert denied
    assert [row.id for row in denied if not (row.twin.twin and row.twin.shows)] == []
    assert [row.id for row in denied if not row.twin.error] == []
