"""Containers made ahead of the call: used once, replaced, given up, never shared."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import docker
import pytest
from tests.sandbox.docker.proxy import CuttableProxy
from tests.sandbox.docker.running import ENV, call, containers, eventually

from sandboxed_tools.errors import SandboxUnavailable
from sandboxed_tools.sandbox.admission import AdmissionLimits
from sandboxed_tools.sandbox.contract import SandboxSpec, WorkspaceMount
from sandboxed_tools.sandbox.docker import moulds
from sandboxed_tools.sandbox.docker.backend import DockerSandbox
from sandboxed_tools.sandbox.docker.container import Container
from sandboxed_tools.sandbox.docker.create import Mould
from sandboxed_tools.sandbox.docker.endpoints import Endpoint
from sandboxed_tools.sandbox.docker.engine import Engine, ask_engine
from sandboxed_tools.sandbox.docker.images import image_tag
from sandboxed_tools.sandbox.docker.pool import Pool
from sandboxed_tools.sandbox.docker.surroundings import Caller
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.state import installation_id
from sandboxed_tools.workspace.views import WorkspaceViews

pytestmark = pytest.mark.engine

MOVING = "sandboxed-tools-test/moving"


def ready(box: DockerSandbox) -> int:
    return sum(shelf.ready for shelf in box.status().shelves)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each call, whether a container stood ready for it."""
    calls: list[bool] = []
    take = Pool.take

    def noted(pool: Pool, mould: Mould, *, is_wanted: Callable[[], bool]) -> Container | None:
        container = take(pool, mould, is_wanted=is_wanted)
        calls.append(container is not None)
        return container

    monkeypatch.setattr(Pool, "take", noted)
    return calls


def test_warm_container_serves_one_call_and_is_gone(
    box: DockerSandbox, spec: SandboxSpec, api: docker.APIClient
) -> None:
    assert anyio.run(box.prewarm, spec, 2) == 2
    warm = containers(api, kind="warm")
    text = "cat /tmp/mark 2>/dev/null; echo mine >/tmp/mark; (sleep 1000 &) ; id -u"
    results = [call(box, spec, text) for _ in range(4)]
    outputs = [result.stdout for result in results]
    assert all(output.count(b"\n") == 1 for output in outputs)
    assert len(set(outputs)) == (4 if os.geteuid() == 0 else 1)
    assert all(result.exit_code == 0 for result in results)
    eventually(lambda: not warm & containers(api, kind="warm"))


def test_shelf_is_filled_again_behind_the_calls(
    box: DockerSandbox, spec: SandboxSpec, taken: list[bool]
) -> None:
    call(box, spec, "true")
    eventually(lambda: ready(box) >= 2)
    assert call(box, spec, "echo warm").stdout == b"warm\n"
    assert taken == [False, True]
    eventually(lambda: ready(box) >= 2)


def test_program_that_makes_one_call_starts_nothing_ahead(
    engine: Engine, spec: SandboxSpec, api: docker.APIClient
) -> None:
    box = DockerSandbox(engine)
    call(box, spec, "true")
    box.close()
    assert not containers(api, kind="warm", pid=os.getpid())


def test_of_more_that_stand_ready_those_asked_for_are_counted(
    box: DockerSandbox, spec: SandboxSpec
) -> None:
    assert anyio.run(box.prewarm, spec, 2) == 2
    assert anyio.run(box.prewarm, spec, 1) == 1


def test_limits_that_travel_with_the_command_share_a_shelf_and_hold(
    box: DockerSandbox, spec: SandboxSpec, taken: list[bool]
) -> None:
    anyio.run(box.prewarm, spec, 2)
    quick = SandboxSpec(
        spec.image, limits=spec.limits.model_copy(update={"wall_s": 0.5, "file_bytes": 1000})
    )
    result = call(box, quick, "head -c 5000 /dev/zero >/tmp/x; sleep 100")
    assert (result.status, len(box.status().shelves)) == ("timeout", 1)
    assert taken == [True]
    assert call(box, quick, "exec head -c 5000 /dev/zero >/tmp/x").status == "disk_limit"


def test_other_limits_are_another_shelf(box: DockerSandbox, spec: SandboxSpec) -> None:
    anyio.run(box.prewarm, spec, 1)
    other = SandboxSpec(spec.image, limits=spec.limits.model_copy(update={"pids": 20}))
    assert call(box, other, "cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max").stdout in (
        b"21\n",
    )
    assert len(box.status().shelves) == 2


def test_environment_is_each_calls_own(box: DockerSandbox, spec: SandboxSpec) -> None:
    anyio.run(box.prewarm, spec, 2)
    for word in ("first", "second"):
        command = Command(("sh", "-c", "echo $WORD"), env={"WORD": word})
        assert anyio.run(box.run, spec, command).stdout_text == f"{word}\n"


def test_dead_container_on_the_shelf_is_passed_over(
    box: DockerSandbox, spec: SandboxSpec, api: docker.APIClient
) -> None:
    anyio.run(box.prewarm, spec, 3)
    for container in containers(api, kind="warm"):
        api.kill(container)
    result = call(box, spec, "echo served")
    assert (result.status, result.stdout) == ("exited", b"served\n")


Pointer = Callable[[str, str], str]


@pytest.fixture
def point(base_image: str, api: docker.APIClient) -> Iterator[Pointer]:
    """Have a tag of the moving image lead to a version of it; returns that image's id."""
    images: dict[str, str] = {}

    def point_to(version: str, tag: str) -> str:
        if version in images:
            api.tag(images[version], MOVING, tag)
            return images[version]
        made = api.create_container_from_config(  # type: ignore[no-untyped-call]
            {"Image": image_tag(base_image), "Env": [f"VERSION={version}"]}, None
        )
        try:
            images[version] = str(api.commit(made["Id"], MOVING, tag)["Id"])
        finally:
            api.remove_container(made["Id"])
        return images[version]

    yield point_to
    for image in images.values():
        api.remove_image(image, force=True)


def test_changed_image_empties_its_shelf(
    engine: Engine, point: Pointer, api: docker.APIClient
) -> None:
    point("one", "here")
    box = DockerSandbox(engine)
    try:
        spec = SandboxSpec(f"{MOVING}:here", limits=Limits.of(memory_bytes="64m"))
        anyio.run(box.prewarm, spec, 2)
        old = containers(api, kind="warm", pid=os.getpid())
        image = point("two", "here")
        eventually(lambda: call(box, spec, "true").image == image)
        eventually(lambda: not old & containers(api, kind="warm", pid=os.getpid()))
        eventually(lambda: ready(box) == 2)  # what was asked for stands ready again
    finally:
        box.close()


def test_image_that_changed_while_nobody_called_is_replaced_after_the_next_call(
    engine: Engine, point: Pointer, api: docker.APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody has called for so long that the engine is not asked about the image any more.
    monkeypatch.setattr(moulds, "IN_USE_S", 0.0)
    monkeypatch.setattr(moulds, "FRESH_S", 0.0)
    point("one", "here")
    box = DockerSandbox(engine)
    try:
        spec = SandboxSpec(f"{MOVING}:here", limits=Limits.of(memory_bytes="64m"))
        anyio.run(box.prewarm, spec, 4)
        old = containers(api, kind="warm", pid=os.getpid())
        image = point("two", "here")
        assert call(box, spec, "true").image == image
        eventually(lambda: not old & containers(api, kind="warm", pid=os.getpid()))
        eventually(lambda: ready(box) == 4)
        assert len(box.status().shelves) == 1
    finally:
        box.close()


def test_changed_image_leaves_alone_what_stands_ready_for_another_name_of_it(
    engine: Engine, point: Pointer, api: docker.APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moulds, "IN_USE_S", 600.0)
    image = point("one", "here")
    point("one", "there")
    box = DockerSandbox(engine)
    try:
        limits = Limits.of(memory_bytes="64m")
        moves, stays = (SandboxSpec(f"{MOVING}:{tag}", limits=limits) for tag in ("here", "there"))
        anyio.run(box.prewarm, stays, 2)
        kept = containers(api, kind="warm", pid=os.getpid())
        anyio.run(box.prewarm, moves, 2)
        old = containers(api, kind="warm", pid=os.getpid()) - kept
        point("two", "here")
        eventually(lambda: not old & containers(api, kind="warm", pid=os.getpid()))
        eventually(lambda: box.status().removing == 0)
        assert kept <= containers(api, kind="warm", pid=os.getpid())
        assert call(box, stays, "true").image == image
    finally:
        box.close()


def test_closing_leaves_nothing(
    engine: Engine, spec: SandboxSpec, api: docker.APIClient, tmp_path: Path
) -> None:
    box = DockerSandbox(engine, views=WorkspaceViews())
    mounted = SandboxSpec(spec.image, limits=spec.limits, workspace=WorkspaceMount(tmp_path))
    anyio.run(box.prewarm, spec, 2)
    anyio.run(box.prewarm, mounted, 2)
    box.close()
    assert not containers(api, kind="warm", pid=os.getpid())
    labels = [f"sandboxed-tools.installation={installation_id()}", "sandboxed-tools.kind=view"]
    assert not [
        v
        for v in api.volumes(filters={"label": labels})["Volumes"] or []
        if v["Labels"]["sandboxed-tools.pid"] == str(os.getpid())
    ]


def test_warm_workspace_shows_what_the_host_changed_meanwhile(
    box: DockerSandbox, spec: SandboxSpec, tmp_path: Path, taken: list[bool]
) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    (workspace / "a").write_text("old")
    (workspace / "gone").write_text("x")
    mounted = SandboxSpec(spec.image, limits=spec.limits, workspace=WorkspaceMount(workspace))
    anyio.run(box.prewarm, mounted, 2)
    (workspace / "a").write_text("new")
    (workspace / "gone").unlink()
    (workspace / "more").mkdir()
    result = call(box, mounted, "cat a; ls; echo mine >a; cat a")
    assert result.stdout == b"newa\nmore\nmine\n"
    assert taken == [True]
    assert call(box, mounted, "cat a").stdout == b"new"


def test_workspace_that_was_replaced_is_another_shelf(
    box: DockerSandbox, spec: SandboxSpec, tmp_path: Path
) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    mounted = SandboxSpec(spec.image, limits=spec.limits, workspace=WorkspaceMount(workspace))
    anyio.run(box.prewarm, mounted, 1)
    workspace.rename(tmp_path / "old")
    workspace.mkdir()
    (workspace / "here").touch()
    assert call(box, mounted, "ls").stdout == b"here\n"


def test_shelf_of_a_workspace_that_was_deleted_is_given_up(
    box: DockerSandbox, spec: SandboxSpec, tmp_path: Path, api: docker.APIClient
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    spec = SandboxSpec(spec.image, limits=spec.limits, workspace=WorkspaceMount(folder))
    assert anyio.run(box.prewarm, spec, 1) == 1
    warm = containers(api, kind="warm", pid=os.getpid())
    folder.rmdir()
    for container in warm:
        api.kill(container)  # its successor cannot be made
    eventually(lambda: not box.status().shelves)
    folder.mkdir()
    assert call(box, spec, "echo anew").stdout == b"anew\n"


def test_prewarm_that_cannot_work_says_why(box: DockerSandbox, spec: SandboxSpec) -> None:
    # A shim of containerd's: whether there is such a one, the engine knows when it starts it.
    bad = SandboxSpec(spec.image, runtime="io.containerd.no-such-shim.v1")
    with pytest.raises(SandboxUnavailable) as failure:
        anyio.run(box.prewarm, bad, 1)
    assert "no-such-shim" in (failure.value.operator_detail or "")
    assert box.status().shelves[0].last_error


def test_filling_backs_off_while_the_engine_is_gone_and_goes_on_after(
    engine: Engine, spec: SandboxSpec, tmp_path: Path
) -> None:
    target = engine.endpoint.socket_path
    assert target is not None
    proxy = CuttableProxy(tmp_path / "engine.sock", target)
    found = ask_engine(Endpoint(proxy.url, source="a test", is_explicit=True))
    assert isinstance(found, Engine)
    box = DockerSandbox(found)
    try:
        anyio.run(box.prewarm, spec, 2)
        proxy.cut()
        with pytest.raises(SandboxUnavailable):
            call(box, spec, "true")
        eventually(lambda: any(s.failures for s in box.status().shelves), within_s=30)
        proxy.mend()
        eventually(lambda: ready(box) == 2, within_s=40)
        assert call(box, spec, "exit 3").exit_code == 3
    finally:
        proxy.mend()
        box.close()
        proxy.close()


def test_threads_and_event_loops_share_one_pool(box: DockerSandbox, spec: SandboxSpec) -> None:
    anyio.run(box.prewarm, spec, 4)
    outputs: list[bytes] = []

    def thread(number: int) -> None:
        async def main() -> None:
            for turn in range(3):
                text = f"{number}.{turn}"
                command = Command(("echo", text), env=ENV)
                result = await box.run(spec, command)
                assert result.stdout_text == f"{text}\n"
                outputs.append(result.stdout)

        anyio.run(main, backend=("asyncio", "trio")[number % 2])

    threads = [threading.Thread(target=thread, args=(number,)) for number in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(120)
    assert len(outputs) == len(set(outputs)) == 18


def test_gate_bounds_the_calls_and_reports(engine: Engine, spec: SandboxSpec) -> None:
    box = DockerSandbox(engine, warm=False, admission=AdmissionLimits(calls=1))
    queued: list[float] = []

    async def one(key: str) -> None:
        command = Command(("sleep", "3"), env=ENV)
        result = await box.run(spec, command, caller=Caller(key=key))
        queued.append(result.phases.queue_s)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(one, "a")
            group.start_soon(one, "b")
            await anyio.to_thread.run_sync(eventually, lambda: box.status().waiting == 1)
            assert box.status().running == 1
            assert {call.state for call in box.status().calls} >= {"waiting"}

    try:
        anyio.run(main)
    finally:
        box.close()
    assert min(queued) < 2 < max(queued)


OWNER = """
import anyio, sys
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker import DockerSandbox, find_engine
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits

async def main():
    box = DockerSandbox(find_engine())
    spec = SandboxSpec(sys.argv[1], limits=Limits(memory_bytes=64 << 20))
    await box.prewarm(spec, 5)
    command = Command(("bash", "-c", "trap '' TERM HUP; sleep 1000 & wait"),
                      env={"PATH": "/usr/bin:/bin"})
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(box.run, spec, command)
        while True:
            calls = [call.state for call in box.status().calls]
            if calls == ["running"] * 5 and sum(s.ready for s in box.status().shelves) >= 5:
                break
            await anyio.sleep(0.05)
        print("ready", flush=True)

anyio.run(main)
"""


def test_killed_owner_takes_five_idle_and_five_busy_containers_along(
    base_image: str, api: docker.APIClient
) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, base_image], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    with owner, owner.stdout:
        try:
            assert owner.stdout.readline() == "ready\n"
            assert len(containers(api, kind="warm", pid=owner.pid)) >= 10
        finally:
            owner.send_signal(signal.SIGKILL)
            owner.wait(30)
    label = [f"sandboxed-tools.pid={owner.pid}"]
    eventually(lambda: not api.containers(filters={"label": label}), within_s=10)  # none runs
    eventually(lambda: not containers(api, kind="warm", pid=owner.pid))


def test_forked_child_shares_neither_shelf_nor_lease_and_can_call(
    engine: Engine, base_image: str, api: docker.APIClient, tmp_path: Path
) -> None:
    source = """
import anyio, os, signal, sys
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker import DockerSandbox, find_engine
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits

box = DockerSandbox(find_engine())
spec = SandboxSpec(sys.argv[1], limits=Limits(memory_bytes=64 << 20))
anyio.run(box.prewarm, spec, 2)
child = os.fork()
if child == 0:
    print("child shelves", len(box.status().shelves), flush=True)
    result = anyio.run(box.run, spec, Command(("echo", "from the child"), env={"PATH": "/bin"}))
    print(result.stdout_text, end="", flush=True)
    box.close()
    print("child closed", flush=True)
    signal.pause()
sys.stdin.readline()
ready = sum(shelf.ready for shelf in box.status().shelves)
print("parent has", ready, flush=True)
os._exit(0)
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", source, base_image],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert parent.stdout is not None
    assert parent.stdin is not None
    with parent, parent.stdout, parent.stdin:
        try:
            assert parent.stdout.readline() == "child shelves 0\n"
            assert parent.stdout.readline() == "from the child\n"
            assert parent.stdout.readline() == "child closed\n"
            assert len(containers(api, kind="warm", pid=parent.pid)) == 2
            parent.stdin.write("\n")
            parent.stdin.flush()
            assert parent.stdout.readline() == "parent has 2\n"
            parent.wait(30)
            # The child lives on, and does not keep the parent's containers.
            os.killpg(parent.pid, 0)
            eventually(lambda: not containers(api, kind="warm", pid=parent.pid), within_s=60)
        finally:
            os.killpg(parent.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_five_hundred_calls_with_random_ends_leave_nothing_and_mix_nothing(
    engine: Engine, spec: SandboxSpec, api: docker.APIClient
) -> None:
    box = DockerSandbox(engine)
    numbers = random.Random(7)
    wrong: list[tuple[str, object]] = []
    left = list(range(500))

    async def worker() -> None:
        while left:
            number = left.pop()
            token = f"token-{number}-{numbers.random()}"
            kind = numbers.choice(["plain", "plain", "timeout", "cancel", "silent cancel"])
            text = f"echo {token}; cat; (sleep 1000 &); " + ("" if kind == "plain" else "sleep 100")
            limits = spec.limits.model_copy(update={"wall_s": 0.05 if kind == "timeout" else 60.0})
            command = Command(("bash", "-c", text), env={**ENV, "T": token}, stdin=token.encode())
            with anyio.move_on_after(numbers.random() / 4) as scope:
                scope.shield = kind in ("plain", "timeout")
                if scope.shield:
                    scope.deadline = float("inf")
                result = await box.run(SandboxSpec(spec.image, limits=limits), command)
                text = result.stdout_text
                whole = f"{token}\n{token}"
                expected = "timeout" if kind == "timeout" else "exited"
                if result.status != expected or not whole.startswith(text):
                    wrong.append((kind, result))
                if kind == "plain" and text != whole:
                    wrong.append((kind, result))

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(worker)

    try:
        anyio.run(main)
    finally:
        box.close()
    assert wrong == []
    for kind in ("warm", "call"):
        assert not containers(api, kind=kind, pid=os.getpid())
    assert box.status().cleanup_failures == 0
