"""What stands ready stays little, fresh and fit, whatever happens to it meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import anyio.to_thread
import docker
import pytest
from tests.sandbox.docker.running import ENV, call, containers, eventually

from sandboxed_tools.errors import ImageUnavailable, SandboxUnavailable
from sandboxed_tools.sandbox.admission import AdmissionLimits
from sandboxed_tools.sandbox.contract import SandboxSpec, WorkspaceMount
from sandboxed_tools.sandbox.docker import pool, shelf
from sandboxed_tools.sandbox.docker.backend import DockerSandbox
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.sandbox.docker.images import image_tag
from sandboxed_tools.sandbox.host_guard import HostLimits
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits

pytestmark = pytest.mark.engine


def warm(api: docker.APIClient) -> set[str]:
    return containers(api, kind="warm", pid=os.getpid())


def standing(box: DockerSandbox) -> int:
    return sum(one.ready + one.filling for one in box.status().shelves)


def test_changes_of_a_session_leave_no_containers_behind(
    box: DockerSandbox, spec: SandboxSpec, tmp_path: Path, api: docker.APIClient
) -> None:
    # Each held change makes older containers unfit: they show the workspace without it.
    mount = WorkspaceMount(tmp_path, changes="hold", session="one")
    mounted = SandboxSpec(spec.image, limits=spec.limits, workspace=mount)
    for number in range(4):
        result = call(box, mounted, f"ls | wc -l; echo {number} >{number}")
        assert result.stdout == b"%d\n" % number
        eventually(lambda: any(one.ready for one in box.status().shelves))
    assert len(box.status().shelves) == 1
    eventually(lambda: len(warm(api)) == shelf.BASE_TARGET)
    assert call(box, mounted, "echo *").stdout == b"0 1 2 3\n"


def test_many_kinds_of_containers_share_one_bound(
    box: DockerSandbox, spec: SandboxSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "MAX_STANDING", 3)
    for pids in (20, 21, 22):
        limits = spec.limits.model_copy(update={"pids": pids})
        call(box, SandboxSpec(spec.image, limits=limits), "true")
        # What was asked for last is there; what was asked for longest ago made room.
        eventually(lambda: box.status().shelves[-1].ready == shelf.BASE_TARGET)
        assert standing(box) <= 3


def test_host_that_lacks_memory_gets_nothing_made_ahead(engine: Engine, spec: SandboxSpec) -> None:
    box = DockerSandbox(engine, host=HostLimits(memory_bytes=1 << 60))
    try:
        with pytest.raises(SandboxUnavailable) as refused:
            anyio.run(box.prewarm, spec, 1)
        assert "host memory" in (refused.value.operator_detail or "")
        assert call(box, spec, "echo one at a time").stdout == b"one at a time\n"
        assert standing(box) == 0
    finally:
        box.close()


def test_warm_containers_are_replaced_before_their_own_deadline(
    box: DockerSandbox,
    spec: SandboxSpec,
    api: docker.APIClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert pool.WARM_LIFETIME_S > shelf.MAX_AGE_S
    anyio.run(box.prewarm, spec, 2)
    first = warm(api)
    monkeypatch.setattr(shelf, "MAX_AGE_S", 1.0)
    eventually(lambda: not first & warm(api))
    monkeypatch.undo()
    eventually(lambda: sum(one.ready for one in box.status().shelves) == 2)
    assert call(box, spec, "echo fresh").stdout == b"fresh\n"


def test_what_was_asked_for_ahead_can_be_given_back(
    box: DockerSandbox,
    spec: SandboxSpec,
    api: docker.APIClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert anyio.run(box.prewarm, spec, 4) == 4
    monkeypatch.setattr(shelf, "BURST_S", 0.05)
    anyio.run(box.prewarm, spec, 0)
    eventually(lambda: len(warm(api)) == shelf.BASE_TARGET)


def test_containers_of_a_kind_that_nobody_asks_for_any_more_go_all(
    box: DockerSandbox,
    spec: SandboxSpec,
    api: docker.APIClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call(box, spec, "true")
    eventually(lambda: bool(warm(api)))
    for name, seconds in (("BURST_S", 0.05), ("BUSY_S", 0.1), ("IDLE_S", 0.2)):
        monkeypatch.setattr(shelf, name, seconds)
    eventually(lambda: not box.status().shelves and not warm(api))


def test_image_that_is_removed_while_warm_serves_no_more_calls(
    engine: Engine, base_image: str, api: docker.APIClient
) -> None:
    name = "sandboxed-tools-test/leaving"
    made = api.create_container_from_config(  # type: ignore[no-untyped-call]
        {"Image": image_tag(base_image), "Env": ["LEAVING=1"]}, None
    )
    try:
        image = api.commit(made["Id"], name, "here")["Id"]
    finally:
        api.remove_container(made["Id"])
    box = DockerSandbox(engine)
    try:
        spec = SandboxSpec(f"{name}:here", limits=Limits.of(memory_bytes="64m"))
        anyio.run(box.prewarm, spec, 2)
        old = warm(api)
        assert len(old) == 2
        api.remove_image(f"{name}:here", force=True)
        eventually(lambda: not old & warm(api))
        with pytest.raises(ImageUnavailable):
            call(box, spec, "true")
    finally:
        box.close()
        api.remove_image(image, force=True)


def test_waiting_container_that_others_removed_is_passed_over(
    box: DockerSandbox, spec: SandboxSpec, api: docker.APIClient
) -> None:
    anyio.run(box.prewarm, spec, 2)
    for container in warm(api):
        api.remove_container(container, force=True)
    assert call(box, spec, "echo served").stdout == b"served\n"


def test_waiting_container_that_others_paused_ends_with_the_deadline_of_its_call(
    box: DockerSandbox, spec: SandboxSpec, api: docker.APIClient
) -> None:
    anyio.run(box.prewarm, spec, 2)
    paused = warm(api)
    for container in paused:
        api.pause(container)
    limits = spec.limits.model_copy(update={"wall_s": 1.0})
    result = call(box, SandboxSpec(spec.image, limits=limits), "echo never")
    assert (result.status, result.stdout) == ("timeout", b"")
    assert any("no figures" in warning for warning in result.warnings)
    eventually(lambda: len(paused & warm(api)) == 1)
    api.unpause(*(paused & warm(api)))
    assert call(box, spec, "echo served").stdout == b"served\n"


def test_closing_amid_calls_queues_and_containers_in_the_making_leaves_nothing(
    engine: Engine, spec: SandboxSpec, api: docker.APIClient
) -> None:
    box = DockerSandbox(engine, admission=AdmissionLimits(calls=3))
    endings: list[str] = []

    async def one(number: int) -> None:
        limits = spec.limits.model_copy(update={"pids": 20 + number % 2})
        command = Command(("bash", "-c", "echo; sleep 100"), env=ENV)
        try:
            result = await box.run(SandboxSpec(spec.image, limits=limits), command)
            endings.append(result.status)
        except SandboxUnavailable:
            endings.append("unavailable")

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number in range(9):
                group.start_soon(one, number)
            await anyio.to_thread.run_sync(
                eventually,
                lambda: any(call.state == "running" for call in box.status().calls),
            )
            group.start_soon(box.prewarm, spec, 0)
            await box.aclose()

    anyio.run(main)
    assert len(endings) == 9
    assert set(endings) <= {"cancelled", "unavailable"}
    assert not containers(api, pid=os.getpid())
    assert box.status().cleanup_failures == 0
    assert (box.status().running, box.status().waiting) == (0, 0)


def test_closed_sandbox_makes_nothing_ahead(engine: Engine, spec: SandboxSpec) -> None:
    box = DockerSandbox(engine)
    box.close()
    with pytest.raises(SandboxUnavailable, match="closed"):
        anyio.run(box.prewarm, spec, 1)
