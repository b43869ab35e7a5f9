"""What the machine does, in order: the steps, their commands and how long each may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["PROJECT", "STEPS", "Step", "plan"]

PROJECT = "/srv"
BIN = "/opt/venv/bin"
# An emulated processor is some ten times slower, and starting a container takes seconds.
PATIENCE = 4
MORE_TIME = (f"--patience={PATIENCE}",)
# Through the engine's API: Debian's package of the engine comes without a client.
LOAD_IMAGES = """
import docker, sys
with open("/dev/vdc", "rb") as disk:
    told = list(docker.APIClient(timeout=500).load_image(disk))
print(told)
sys.exit(any("error" in line for line in told))
"""


@dataclass(frozen=True, slots=True)
class Step:
    """One command in the guest. Without a step that ``is_needed`` nothing after it is tried.

    ``file`` is read at the end and comes out beside the output.
    """

    name: str
    argv: tuple[str, ...]
    deadline_s: float
    is_needed: bool = False
    cwd: str = PROJECT
    env: Mapping[str, str] = field(default_factory=dict)
    file: str | None = None


def _tests(name: str, *arguments: str, deadline_s: float) -> Step:
    junit = f"/run/{name.replace(' ', '-')}.xml"
    return Step(
        name,
        (
            f"{BIN}/pytest",
            "-v",
            f"--timeout={180 * PATIENCE}",
            "-p",
            "no:cacheprovider",
            f"--junitxml={junit}",
            *arguments,
        ),
        deadline_s,
        env={"CI": "true", "ABUSE_PATIENCE": str(PATIENCE)},
        file=junit,
    )


STEPS = (
    Step(
        "install",
        ("sh", "-c", f"exec {BIN}/pip install --quiet --no-index --no-deps {PROJECT}/*.whl"),
        deadline_s=300,
        is_needed=True,
    ),
    Step("images", (f"{BIN}/python", "-c", LOAD_IMAGES), deadline_s=600, is_needed=True),
    Step("doctor", (f"{BIN}/sandboxed-tools", "doctor", "--json"), deadline_s=600),
    Step(
        "conformance",
        (f"{BIN}/sandboxed-tools", "conformance", "--json", "--at-once=2", *MORE_TIME),
        deadline_s=3600,
    ),
    _tests("control-groups", "tests/sandbox/docker/test_control_groups.py", deadline_s=900),
    _tests("abuse", "tests/security/test_abuse_corpus.py", deadline_s=5400),
)


def plan(only: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """The steps as data: those that are needed, and of the others the ones in ``only``, if any."""
    return [asdict(step) for step in STEPS if step.is_needed or not only or step.name in only]
