"""A policy can require what the sandbox enforces, and only what a probe has proved counts."""

from __future__ import annotations

import pytest
from tests.runtime.recording_sandbox import RecordingSandbox

from sandboxed_tools import Policy, Toolbox
from sandboxed_tools.errors import UnsupportedOnEngine
from sandboxed_tools.sandbox.contract import Capabilities, Capability

pytestmark = pytest.mark.anyio


class Probed(RecordingSandbox):
    """Enforces seccomp, processes and no network; memory only nearly."""

    def __init__(self) -> None:
        super().__init__()
        self.probes = 0

    async def capabilities(self) -> Capabilities:
        self.probes += 1
        return Capabilities(
            "probed",
            {},
            (
                Capability("seccomp", "enforced", "tried"),
                Capability("processes", "enforced", "tried"),
                Capability("no network", "enforced", "tried"),
                Capability("memory", "weaker", "swap is not counted"),
                Capability("storage quota", "unknown", "could not be tried"),
            ),
        )


async def call(policy: Policy, sandbox: Probed, *, runtime: str | None = None) -> None:
    async with Toolbox(sandbox=sandbox, policy=policy, runtime=runtime) as box:
        for _ in range(2):
            await box.call("Bash", {"command": "touch x"})


async def test_what_is_proved_is_probed_once_and_lets_calls_run() -> None:
    sandbox = Probed()
    await call(Policy(require=frozenset({"seccomp", "pids", "no-network", "No Network"})), sandbox)
    assert len(sandbox.runs) == 2
    assert sandbox.probes == 1


async def test_without_requirements_nothing_is_probed() -> None:
    sandbox = Probed()
    await call(Policy(), sandbox)
    assert sandbox.probes == 0


@pytest.mark.parametrize(
    ("name", "state"),
    [("memory", "weaker"), ("storage-quota", "unknown"), ("no-such-thing", "nothing of this name")],
)
async def test_what_is_not_enforced_refuses_the_call_before_it_runs(name: str, state: str) -> None:
    sandbox = Probed()
    with pytest.raises(UnsupportedOnEngine, match=f"{name} .{state}"):
        await call(Policy(require=frozenset({"seccomp", name})), sandbox)
    assert sandbox.runs == []


async def test_another_runtime_than_the_probed_one_proves_nothing() -> None:
    sandbox = Probed()
    with pytest.raises(UnsupportedOnEngine, match="default runtime"):
        await call(Policy(require=frozenset({"seccomp"})), sandbox, runtime="runsc")
    assert sandbox.runs == []
