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
# The first quota switches code of the kernel's scheduler over, and the last one that goes switches
# it back (its static key of CFS bandwidth). With a thread for each processor the emulator may still
# execute the breakpoint that stands there meanwhile when the kernel knows no more of it: "Oops:
# int3" in dequeue_entity, seen. So one quota, which limits nothing, is there from the beginning on.
LASTING_QUOTA = (
    "systemctl set-property --runtime sandboxed-tools-vm.service CPUQuota=1000%"
    " && grep . /sys/fs/cgroup/system.slice/sandboxed-tools-vm.service/cpu.max"
)
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
    Step("quota", ("sh", "-c", LASTING_QUOTA), deadline_s=120, is_needed=True),
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
    _tests("apparmor", "tests/sandbox/docker/test_mandatory_access.py", deadline_s=900),
    _tests("control-groups", "tests/sandbox/docker/test_control_groups.py", deadline_s=900),
    _tests("abuse", "tests/security/test_abuse_corpus.py", deadline_s=5400),
)


def plan(only: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """The steps as data: those that are needed, and of the others the ones in ``only``, if any."""
    return [asdict(step) for step in STEPS if step.is_needed or not only or step.name in only]
