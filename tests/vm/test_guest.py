"""What runs in the guest: each step ends, and is told of whatever became of it."""

from __future__ import annotations

import io
import sys
from typing import Any

from tests.vm import guest
from tests.vm.plan import STEPS, plan


def take(*argv: str, deadline_s: float = 60, file: str | None = None) -> dict[str, Any]:
    step = {"name": "s", "argv": argv, "deadline_s": deadline_s, "cwd": "/", "env": {"A": "b"}}
    return guest.take({**step, "file": file}, io.StringIO())


def test_a_step_is_told_with_both_streams_and_its_exit_code() -> None:
    done = take("sh", "-c", "echo out $A; echo err >&2; exit 3")
    assert (done["stdout"], done["stderr"], done["exit_code"]) == ("out b\n", "err\n", 3)
    assert not done["timed_out"]


def test_a_step_that_does_not_end_is_ended_with_its_children() -> None:
    done = take("sh", "-c", "echo begun; sleep 600 & sleep 600", deadline_s=0.5)
    assert (done["timed_out"], done["exit_code"]) == (True, -9)


def test_a_program_that_does_not_exist_is_a_failed_step() -> None:
    assert take("no-such-program")["exit_code"] == 127


def test_long_output_keeps_its_end() -> None:
    size = guest.OUTPUT_BYTES + 1000
    done = take(sys.executable, "-c", f"print('x' * {size} + 'end')")
    assert len(done["stdout"]) == guest.OUTPUT_BYTES
    assert done["stdout"].endswith("xend\n")


def test_a_plan_of_some_steps_has_the_needed_ones_in_order() -> None:
    names = [step["name"] for step in plan(("doctor",))]
    assert names == [step.name for step in STEPS if step.is_needed or step.name == "doctor"]
    assert [step["name"] for step in plan()] == [step.name for step in STEPS]
