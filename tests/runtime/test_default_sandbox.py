"""What an operator lets all contained calls use together reaches the sandbox of every surface."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from tests.cli.command_line import command_line
from tests.sandbox.docker.proxy import CuttableProxy
from tests.sandbox.docker.running import eventually

from sandboxed_tools.builtin import Bash
from sandboxed_tools.errors import EngineFault, Overloaded
from sandboxed_tools.mcp.shared_sandbox import SharedSandbox
from sandboxed_tools.policy import AdmissionPolicy, Policy
from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.runtime.default_sandbox import open_default_sandbox
from sandboxed_tools.sandbox.contract import SandboxSpec, WorkspaceMount
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.sandbox.docker.status_file import others_run
from sandboxed_tools.tool.command import Command

pytestmark = pytest.mark.engine

ENV = {"PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize(
    ("bound", "value", "what"),
    [
        ("CALLS_ON_MACHINE", "1", "calls on this machine"),
        ("FREE_MEMORY_BYTES", "1t", "host memory"),
    ],
)
def test_bound_holds_for_all_programs_of_this_machine(bound: str, value: str, what: str) -> None:
    env = {
        **os.environ,
        f"SANDBOXED_TOOLS_ADMISSION__{bound}": value,
        "SANDBOXED_TOOLS_ADMISSION__QUEUE_S": "0.2",
    }
    first = subprocess.Popen(
        [sys.executable, "-m", "sandboxed_tools.cli.main", "run", "-i", "--", "echo up; cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=env,
    )
    assert first.stdout is not None
    try:
        assert first.stdout.read(3) == b"up\n"
        eventually(others_run)
        refused = command_line("run", "--json", "--", "true", env=env)
        assert (refused.code, refused.object["error"]["code"]) == (125, "overloaded")
        assert what in refused.object["error"]["message"]
    finally:
        first.communicate(timeout=60)
    assert first.returncode == 0
    assert command_line("run", "--", "exit 3", env=env).code == 3


def test_control_group_of_the_policy_is_asked_for(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = engine.endpoint.socket_path
    assert target is not None
    proxy = CuttableProxy(tmp_path / "engine.sock", target)
    monkeypatch.setenv("DOCKER_HOST", proxy.url)
    proxy.fail_on = b'"CgroupParent": "/operators/own"'
    policy = Policy(admission=AdmissionPolicy(cgroup_parent="/operators/own"))

    async def main() -> None:
        async with Toolbox([Bash], policy=policy, warm=False) as box:
            with pytest.raises(EngineFault):
                await box.call("Bash", {"command": "mkdir /tmp/x"})

    try:
        anyio.run(main)
        assert proxy.failures >= 1
    finally:
        proxy.close()


def test_budget_of_the_policy_is_kept() -> None:
    policy = Policy(admission=AdmissionPolicy(budget_calls=1, per_s=86_400))

    async def main() -> None:
        async with Toolbox([Bash], policy=policy) as box:
            await box.call("Bash", {"command": "mkdir /tmp/x"})
            with pytest.raises(Overloaded) as refused:
                await box.call("Bash", {"command": "mkdir /tmp/x"})
            assert refused.value.what == "budget: calls"

    anyio.run(main)


@pytest.mark.parametrize(
    ("admission", "what"),
    [
        (AdmissionPolicy(queue_s=0.1, free_memory_bytes=1 << 60), "host memory"),
        (AdmissionPolicy(queue_s=0.1, free_disk_bytes=1 << 60), "host disk"),
        (AdmissionPolicy(queue=0), "queue"),
        (AdmissionPolicy(calls=1, queue_s=0.1), "calls"),
    ],
)
def test_calls_beside_others_are_bounded_as_the_policy_says(
    base_image: str, admission: AdmissionPolicy, what: str
) -> None:
    async def main() -> None:
        sandbox = open_default_sandbox(warm=False, admission=admission)
        spec, up = SandboxSpec(base_image), anyio.Event()
        token = anyio.lowlevel.current_token()

        def is_up(*_: object) -> None:
            anyio.from_thread.run_sync(up.set, token=token)

        try:
            if what == "queue":  # not even the first has a place
                up.set()
            async with anyio.create_task_group() as group:
                command = Command(("sh", "-c", "echo; sleep 100"), env=ENV)
                if what != "queue":
                    group.start_soon(sandbox.run, spec, command, is_up)
                with anyio.fail_after(60):
                    await up.wait()
                with pytest.raises(Overloaded) as refused:
                    await sandbox.run(spec, Command(("true",), env=ENV))
                assert refused.value.what == what
                group.cancel_scope.cancel()
        finally:
            await sandbox.aclose()

    anyio.run(main)


def test_callers_of_one_sandbox_share_its_budget(base_image: str) -> None:
    async def main() -> None:
        sandbox = open_default_sandbox(warm=False, admission=AdmissionPolicy(budget_calls=1))
        try:
            spec, command = SandboxSpec(base_image), Command(("true",), env=ENV)
            assert (await sandbox.for_caller("one").run(spec, command)).exit_code == 0
            with pytest.raises(Overloaded):
                await sandbox.for_caller("another").run(spec, command)
        finally:
            await sandbox.aclose()

    anyio.run(main)


def test_sandbox_that_clients_share_keeps_to_the_policy(base_image: str, tmp_path: Path) -> None:
    policy = Policy(protected_paths=("deploy/**",), admission=AdmissionPolicy(budget_calls=1))

    async def main() -> None:
        shared = SharedSandbox(policy)
        try:
            mount = WorkspaceMount(tmp_path, changes="apply")
            spec = SandboxSpec(base_image, workspace=mount)
            command = Command(("sh", "-c", "mkdir deploy; touch deploy/now"), env=ENV)
            result = await shared.for_client("one").run(spec, command)
            assert result.changes is not None
            assert result.changes.decision == "held"
            assert not (tmp_path / "deploy").exists()
            with pytest.raises(Overloaded):
                await shared.for_client("another").run(spec, command)
        finally:
            await shared.aclose()

    anyio.run(main)
