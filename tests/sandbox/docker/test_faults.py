"""The engine fails, the client dies, the image cannot take the launcher."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import anyio
import docker
import pytest
from tests.sandbox.docker.proxy import CuttableProxy, engine_behind
from tests.sandbox.docker.running import ENV, eventually

from sandboxed_tools.errors import (
    EngineFault,
    ImageUnavailable,
    SandboxUnavailable,
    UnsupportedOnEngine,
)
from sandboxed_tools.sandbox.contract import OutputSink, SandboxSpec
from sandboxed_tools.sandbox.docker import backend
from sandboxed_tools.sandbox.docker.backend import DockerSandbox
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.result import ExecResult
from sandboxed_tools.tool.state import installation_id

pytestmark = pytest.mark.engine


def containers_of_this_session(api: docker.APIClient, **filters: str) -> list[str]:
    mine = {"label": f"sandboxed-tools.installation={installation_id()}", **filters}
    return [container["Id"] for container in api.containers(all=True, filters=mine)]


def run_in(
    box: DockerSandbox, image: str, text: str, *, env: dict[str, str] = ENV, **limits: object
) -> ExecResult:
    spec = SandboxSpec(image, limits=Limits.of(**{"wall_s": 120, **limits}))
    return anyio.run(box.run, spec, Command(("sh", "-c", text), env=env))


@pytest.fixture
def proxied(proxy: CuttableProxy) -> Iterator[DockerSandbox]:
    found = engine_behind(proxy)
    box = DockerSandbox(found, warm=False)
    yield box
    proxy.fail_on = None
    proxy.mend()
    box.close()


def test_engine_that_vanishes_in_the_middle_is_a_fault_and_the_container_goes(
    proxied: DockerSandbox, proxy: CuttableProxy, base_image: str, api: docker.APIClient
) -> None:
    async def main() -> None:
        await proxied.run(
            SandboxSpec(base_image),
            Command(("sh", "-c", "echo; sleep 100"), env=ENV),
            lambda *_: proxy.cut(),
        )

    begin = time.monotonic()
    with pytest.raises(EngineFault, match="lost"):
        anyio.run(main)
    assert time.monotonic() - begin < 20
    # The cut connection was the lease.
    eventually(lambda: not containers_of_this_session(api), within_s=60)


def test_call_is_never_sent_twice(
    proxied: DockerSandbox, proxy: CuttableProxy, base_image: str
) -> None:
    proxy.fail_on = b"/start"
    with pytest.raises(EngineFault):
        run_in(proxied, base_image, "true")
    assert proxy.failures == 1


@pytest.mark.parametrize("step", [b"/containers/create", b"/attach", b"/start"])
def test_start_that_fails_half_way_leaves_nothing(
    proxied: DockerSandbox,
    proxy: CuttableProxy,
    base_image: str,
    api: docker.APIClient,
    step: bytes,
) -> None:
    proxy.fail_on = step
    with pytest.raises(EngineFault):
        run_in(proxied, base_image, "true")
    assert proxy.failures >= 1
    eventually(lambda: not containers_of_this_session(api), within_s=60)


def test_engine_that_is_gone_for_a_moment_is_asked_again_before_the_call(
    proxied: DockerSandbox, proxy: CuttableProxy, base_image: str
) -> None:
    proxy.fail_on = b"/containers/create"

    def mend_later() -> None:
        eventually(lambda: proxy.failures >= 1, within_s=60)
        proxy.fail_on = None

    mender = threading.Thread(target=mend_later)
    mender.start()
    try:
        assert run_in(proxied, base_image, "exit 3").exit_code == 3
    finally:
        mender.join()


def test_engine_that_is_gone_is_a_typed_error_and_nothing_runs_elsewhere(
    proxied: DockerSandbox, proxy: CuttableProxy, base_image: str, tmp_path: Path
) -> None:
    proxy.cut()
    mark = tmp_path / "ran on the host"
    with pytest.raises(SandboxUnavailable):
        run_in(proxied, base_image, f"touch '{mark}'")
    assert not mark.exists()


@pytest.mark.parametrize("how", ["killed", "removed"])
def test_container_ended_from_outside_is_a_signal_with_a_warning(
    sandbox: DockerSandbox, base_image: str, api: docker.APIClient, how: str
) -> None:
    def kill(*_: object) -> None:
        for call in sandbox.status().calls:
            if how == "killed":
                api.kill(call.container_id)
            else:
                api.remove_container(call.container_id, force=True)

    async def main() -> ExecResult:
        command = Command(("sh", "-c", "echo before; sleep 100"), env=ENV)
        return await sandbox.run(SandboxSpec(base_image), command, kill)

    result = anyio.run(main)
    assert (result.status, result.signal) == ("signalled", signal.SIGKILL)
    assert result.stdout == b"before\n"
    assert any("no figures" in warning for warning in result.warnings)


def test_call_whose_stream_alone_is_lost_did_not_end_by_a_signal(
    proxied: DockerSandbox, proxy: CuttableProxy, base_image: str, api: docker.APIClient
) -> None:
    # The launcher has killed the command by then, because nobody listens to it any more.
    async def main() -> None:
        command = Command(("sh", "-c", "echo; sleep 100"), env=ENV)
        await proxied.run(SandboxSpec(base_image), command, lambda *_: proxy.cut_streams())

    for _ in range(3):
        with pytest.raises(EngineFault):
            anyio.run(main)
    eventually(lambda: not containers_of_this_session(api))


@pytest.mark.parametrize("jump_s", [-86_400.0, 86_400.0])
def test_clock_that_jumps_during_a_call_changes_nothing_about_it(
    sandbox: DockerSandbox,
    base_image: str,
    api: docker.APIClient,
    monkeypatch: pytest.MonkeyPatch,
    jump_s: float,
) -> None:
    real = time.time

    def jump(*_: object) -> None:
        monkeypatch.setattr(time, "time", lambda: real() + jump_s)

    def jump_and_kill(*_: object) -> None:
        jump()
        for call in sandbox.status().calls:
            api.kill(call.container_id)

    async def main(sink: OutputSink, wall_s: float) -> ExecResult:
        spec = SandboxSpec(base_image, limits=Limits(wall_s=wall_s))
        return await sandbox.run(spec, Command(("sh", "-c", "echo; sleep 100"), env=ENV), sink)

    result = anyio.run(main, jump, 1.0)
    assert (result.status, result.stdout) == ("timeout", b"\n")
    monkeypatch.undo()
    killed = anyio.run(main, jump_and_kill, 60.0)
    assert (killed.status, killed.signal) == ("signalled", signal.SIGKILL)


def test_missing_image_is_named(sandbox: DockerSandbox) -> None:
    with pytest.raises(ImageUnavailable):
        run_in(sandbox, "no.such/image:tag", "true")


def test_closed_sandbox_refuses_and_closing_ends_what_runs(
    engine: Engine, base_image: str, api: docker.APIClient
) -> None:
    box = DockerSandbox(engine, warm=False)
    results: list[ExecResult] = []
    seen = threading.Event()

    async def main() -> None:
        command = Command(("sh", "-c", "echo; sleep 100"), env=ENV)
        results.append(await box.run(SandboxSpec(base_image), command, lambda *_: seen.set()))

    thread = threading.Thread(target=lambda: anyio.run(main))
    thread.start()
    assert seen.wait(30)
    box.close()
    thread.join(10)
    assert [result.status for result in results] == ["cancelled"]
    eventually(lambda: not containers_of_this_session(api, status="running"))
    with pytest.raises(SandboxUnavailable, match="closed"):
        run_in(box, base_image, "true")


CLIENT = """
import anyio, os, sys
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker import DockerSandbox, find_engine
from sandboxed_tools.tool.command import Command

async def main():
    box = DockerSandbox(find_engine(), warm=False)
    command = Command(("bash", "-c", "trap '' TERM HUP PIPE; echo ready; sleep 1000 & wait"),
                      env={"PATH": "/usr/bin:/bin"})
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(box.run, SandboxSpec(sys.argv[1]), command,
                             lambda *_: os.write(1, b"ready\\n"))

anyio.run(main)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_death_of_the_client_ends_its_containers(
    base_image: str, api: docker.APIClient, how: signal.Signals
) -> None:
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, base_image],
        stdout=subprocess.PIPE,
        text=True,
        # A test run in the background of a shell inherits an interruption that is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert client.stdout is not None
    with client, client.stdout:
        try:
            for _ in range(3):
                assert client.stdout.readline() == "ready\n"
            # That of an earlier call may still be going.
            eventually(lambda: len(containers_of_this_session(api, status="running")) == 3)
        finally:
            client.send_signal(how)
            client.wait(30)
    # Not only stopped: gone, without anybody's help.
    eventually(lambda: not containers_of_this_session(api), within_s=60)


def test_forked_child_does_not_keep_the_lease(
    engine: Engine, base_image: str, api: docker.APIClient
) -> None:
    source = CLIENT.replace(
        "lambda *_: os.write(",
        "lambda *_: (os.fork() or time.sleep(60) or os._exit(0)) and os.write(",
    ).replace("import anyio, os, sys", "import anyio, os, sys, time")
    client = subprocess.Popen(
        [sys.executable, "-c", source, base_image],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert client.stdout is not None
    with client:
        try:
            for _ in range(3):
                assert client.stdout.readline() == "ready\n"
            client.kill()
            client.wait(30)
            os.killpg(client.pid, 0)  # its children live
            eventually(lambda: not containers_of_this_session(api), within_s=60)
        finally:
            os.killpg(client.pid, signal.SIGKILL)
            client.stdout.close()


def test_stopped_client_does_not_keep_its_call_past_the_deadline(
    base_image: str, api: docker.APIClient
) -> None:
    # The launcher keeps the deadline itself, some seconds later than the client would.
    source = CLIENT.replace(
        "SandboxSpec(sys.argv[1])", "SandboxSpec(sys.argv[1], limits=Limits(wall_s=5))"
    ).replace(
        "import anyio, os, sys",
        "import anyio, os, sys\nfrom sandboxed_tools.tool.limits import Limits",
    )
    client = subprocess.Popen(
        [sys.executable, "-c", source, base_image], stdout=subprocess.PIPE, text=True
    )
    assert client.stdout is not None
    with client:
        try:
            for _ in range(3):
                assert client.stdout.readline() == "ready\n"
            client.send_signal(signal.SIGSTOP)
            eventually(lambda: not containers_of_this_session(api, status="running"), within_s=60)
        finally:
            client.kill()
            client.stdout.close()
    eventually(lambda: not containers_of_this_session(api), within_s=60)


@pytest.fixture
def remote(engine: Engine) -> Iterator[CuttableProxy]:
    """The same engine, reached over TCP."""
    target = engine.endpoint.socket_path
    assert target is not None
    proxy = CuttableProxy(None, target)
    yield proxy
    proxy.close()


def over_tcp(proxy: CuttableProxy) -> DockerSandbox:
    found = engine_behind(proxy)
    return DockerSandbox(found, warm=False)


def test_engine_over_tcp_serves_calls_for_longer_than_a_heartbeat(
    remote: CuttableProxy, base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "REMOTE_HEARTBEAT_S", 2.0)
    box = over_tcp(remote)
    try:
        command = Command(("sh", "-c", "sleep 5; cat; exit 3"), env=ENV, stdin=b"in" * 500_000)
        result = anyio.run(box.run, SandboxSpec(base_image), command)
        assert (result.exit_code, result.stdout_bytes) == (3, 1_000_000)
    finally:
        box.close()


def test_client_behind_a_dead_network_loses_its_container(
    remote: CuttableProxy,
    base_image: str,
    api: docker.APIClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Nobody closes the stream, so the engine sees no end: the launcher misses the heartbeat.
    monkeypatch.setattr(backend, "REMOTE_HEARTBEAT_S", 3.0)
    box = over_tcp(remote)

    async def main() -> ExecResult:
        command = Command(("sh", "-c", "trap '' TERM; echo; sleep 100"), env=ENV)
        spec = SandboxSpec(base_image, limits=Limits(wall_s=30))
        return await box.run(spec, command, lambda *_: remote.freeze())

    results: list[ExecResult] = []
    thread = threading.Thread(target=lambda: results.append(anyio.run(main)))
    thread.start()
    try:
        eventually(lambda: bool(containers_of_this_session(api, status="running")), within_s=60)
        eventually(lambda: not containers_of_this_session(api, status="running"), within_s=25)
        assert not results  # the client, cut off, is still waiting for its own deadline
        thread.join(60)
        assert [result.status for result in results] == ["timeout"]
    finally:
        remote.close()
        thread.join(60)
        box.close()


@pytest.fixture
def foreign_image(base_image: str, api: docker.APIClient) -> Iterator[str]:
    """The same files under a name that is not ours, and with variables of its own."""
    from sandboxed_tools.sandbox.docker.images import image_tag

    tag = uuid.uuid4().hex  # others run beside us
    container = api.create_container_from_config(  # type: ignore[no-untyped-call]
        {"Image": image_tag(base_image), "Cmd": ["true"], "Env": ["FOREIGN=1"]}, None
    )["Id"]
    try:
        api.commit(container, "sandboxed-tools-test/foreign", tag)
    finally:
        api.remove_container(container, force=True)
    yield f"sandboxed-tools-test/foreign:{tag}"
    api.remove_image(f"sandboxed-tools-test/foreign:{tag}", force=True)


def test_foreign_image_gets_the_launcher_in_a_volume(
    sandbox: DockerSandbox, foreign_image: str
) -> None:
    result = run_in(
        sandbox,
        foreign_image,
        "cat /proc/1/comm; awk '$2 == \"/.sandboxed-tools\" {print $4}' /proc/mounts "
        "| grep -c ^ro,; echo ${FOREIGN-unset};"
        "touch /.sandboxed-tools/x || exit 3",
    )
    assert (result.exit_code, result.stdout) == (3, b"launcher\n1\nunset\n")
    # Shown, but no ground for budgets.
    assert result.usage.cpu_s is not None
    assert not result.trusted_report


def engine_notices_oom(api: docker.APIClient, image: str) -> bool:
    """Whether the engine's own flag works here: its shim gives up, silently, on a hierarchy of
    control groups that was mounted after the engine was started."""
    made = api.create_container_from_config(  # type: ignore[no-untyped-call]
        {
            "Image": image,
            "Entrypoint": ["python3", "-c", "bytearray(1 << 30)"],
            "HostConfig": {"Memory": 64 << 20, "MemorySwap": 64 << 20, "NetworkMode": "none"},
        },
        None,
    )["Id"]
    try:
        api.start(made)
        api.wait(made)
        return bool(api.inspect_container(made)["State"]["OOMKilled"])
    finally:
        api.remove_container(made, force=True)


def test_image_without_launcher_runs_cold_and_says_so_once(
    api: docker.APIClient,
    engine: Engine,
    foreign_image: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from sandboxed_tools.sandbox.docker.launcher_volume import LauncherVolume

    monkeypatch.setattr(LauncherVolume, "name", lambda _self: None)
    box = DockerSandbox(engine, warm=False)
    try:
        with caplog.at_level(logging.WARNING):
            result = run_in(box, foreign_image, "echo out; echo err >&2; exit 3")
            assert (result.status, result.exit_code) == ("exited", 3)
            assert (result.stdout, result.stderr) == (b"out\n", b"err\n")
            killed = run_in(box, foreign_image, "kill -9 $$; exec sh -c 'kill -9 $$'")
            late = run_in(box, foreign_image, "echo hi; trap '' TERM; sleep 100", wall_s=3)
            # The engine's own flag may come too late or never, for one in fifty on a quiet machine.
            bomb = "exec python3 -c 'bytearray(1<<30)'"
            memory = {run_in(box, foreign_image, bomb, memory_bytes="64m").status for _ in range(3)}
        assert killed.status in ("exited", "signalled")  # process 1 may ignore its own signal
        assert (late.status, late.stdout) == ("timeout", b"hi\n")
        assert memory <= {"oom", "signalled"}
        if engine_notices_oom(api, foreign_image):
            assert "oom" in memory
        assert len([r for r in caplog.records if "launcher" in r.getMessage()]) == 1
        with pytest.raises(UnsupportedOnEngine, match="TOKEN"):
            run_in(box, foreign_image, "true", env={**ENV, "TOKEN": "secret"})
    finally:
        box.close()


def test_oom_of_a_child_is_never_missed(sandbox: DockerSandbox, base_image: str) -> None:
    # The engine's own flag misses one in fifty when the container ends right after.
    for _ in range(10):
        result = run_in(
            sandbox, base_image, "python3 -c 'bytearray(1 << 30)'; exit 4", memory_bytes="48m"
        )
        assert (result.status, result.exit_code) == ("exited", 4)
        assert "memory" in result.limits_hit


def test_archive_of_a_container_is_never_asked_for() -> None:
    # Its stream holds the container's lock, and its writer runs the container's own programs
    # as root on old engines (CVE-2026-41567, moby issue 46782).
    import sandboxed_tools.sandbox.docker as package

    for path in Path(package.__path__[0]).glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "get_archive" not in text, path
        assert "put_archive" not in text, path
