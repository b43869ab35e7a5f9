"""``run`` with services: what is wrongly written is usage, what is missing is the sandbox's."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sandboxed_tools.cli.main", "run", *words, "--", "true"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "words",
    [
        ("--service", "db"),
        ("--service", "=container"),
        ("--service", "localhost=container"),
        ("--network", "host"),
        ("--network", "compose:project"),
        ("--network", "bridge", "--service", "db=container"),
    ],
)
def test_what_is_no_service_and_no_network_is_wrong_usage(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.engine
def test_a_service_that_does_not_run_is_named() -> None:
    done = run("--service", "db=st-no-such-container")
    assert done.returncode == 125
    assert "st-no-such-container" in done.stderr
    done = run("--network", "compose:st-no-such-project/back")
    assert done.returncode == 125
    assert "st-no-such-project" in done.stderr
