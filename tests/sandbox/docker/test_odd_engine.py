"""An engine that answers with errors, with halves, with nonsense, or not at all."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator

import anyio
import anyio.to_thread
import docker
import pytest
from tests.sandbox.docker.proxy import CuttableProxy, engine_behind
from tests.sandbox.docker.running import ENV, containers, eventually

from sandboxed_tools.errors import EngineFault, SandboxUnavailable
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker.backend import DockerSandbox
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.limits import Limits
from sandboxed_tools.tool.result import ExecResult

pytestmark = pytest.mark.engine


@pytest.fixture
def box(proxy: CuttableProxy) -> Iterator[DockerSandbox]:
    found = engine_behind(proxy)
    box = DockerSandbox(found, warm=False)
    yield box
    proxy.fail_on = proxy.hold_on = None
    proxy.drop()
    box.close()


def answer(code: int, body: str) -> bytes:
    head = f"HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n{body}".encode()


HALF = b'HTTP/1.1 201 X\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"Id":'
IMAGE = {"Id": "sha256:0", "Os": "linux", "Architecture": "amd64"}


@pytest.mark.parametrize(
    ("request_to", "reply"),
    [
        (b"/containers/create", answer(500, '{"message": "the disk is full"}')),
        (b"/containers/create", answer(502, "<html>bad gateway")),
        (b"/containers/create", answer(201, "{}")),
        (b"/containers/create", answer(201, "[]")),
        (b"/containers/create", answer(201, "null")),
        (b"/containers/create", answer(201, "[" * 100_000)),
        (b"/containers/create", HALF),
        (b"/images/", answer(500, '{"message": "no"}')),
        (b"/images/", answer(200, "[]")),
        (b"/images/", answer(200, "[" * 100_000)),
        (b"/images/", answer(200, json.dumps({**IMAGE, "Config": [1]}))),
        (b"/images/", answer(200, json.dumps({**IMAGE, "Id": None, "Config": {"Env": 7}}))),
        (b"/attach", answer(500, '{"message": "no"}')),
        (b"/attach", b"HTTP/1.1 101"),
        (b"/attach", b"HTTP/1.1 101 " + b"x" * 40_000),
        (b"/attach", b"HTTP/1.1 200 OK\r\n\r\n\x01\0\0\0\xff\xff\xff\xffa lie"),
        (b"/start", answer(500, '{"message": "OCI runtime create failed"}')),
    ],
)
def test_answer_that_is_none_is_a_typed_error_and_leaves_nothing(
    box: DockerSandbox,
    proxy: CuttableProxy,
    base_image: str,
    api: docker.APIClient,
    request_to: bytes,
    reply: bytes,
) -> None:
    proxy.fail_on, proxy.answer = request_to, reply
    with pytest.raises(SandboxUnavailable):
        anyio.run(box.run, SandboxSpec(base_image), Command(("true",), env=ENV))
    assert proxy.failures >= 1
    proxy.fail_on = None
    eventually(lambda: not containers(api, pid=os.getpid()))


def test_container_whose_making_nobody_heard_of_is_found_again_and_used(
    box: DockerSandbox, proxy: CuttableProxy, base_image: str, api: docker.APIClient
) -> None:
    # It stands at the end of the request, so the engine has it whole by then.
    for _ in range(3):
        proxy.lose_on = b'"DnsSearch"'
        result = anyio.run(box.run, SandboxSpec(base_image), Command(("echo", "once"), env=ENV))
        assert result.stdout == b"once\n"
        assert proxy.lose_on is None
    eventually(lambda: not containers(api, pid=os.getpid()))


@pytest.mark.parametrize("request_to", [b"/images/", b"/containers/create", b"/start"])
def test_engine_that_never_answers_holds_no_cancelled_call(
    box: DockerSandbox,
    proxy: CuttableProxy,
    base_image: str,
    api: docker.APIClient,
    request_to: bytes,
) -> None:
    proxy.hold_on = request_to

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(box.run, SandboxSpec(base_image), Command(("true",), env=ENV))
            await anyio.to_thread.run_sync(lambda: eventually(lambda: proxy.failures > 0))
            with anyio.fail_after(30):  # the engine itself is given a minute
                group.cancel_scope.cancel()
                await anyio.lowlevel.checkpoint()

    anyio.run(main)
    proxy.hold_on = None
    proxy.drop()
    eventually(lambda: not containers(api, pid=os.getpid()))


def test_engine_that_never_answers_does_not_hold_up_the_end_of_a_program(
    box: DockerSandbox, proxy: CuttableProxy, base_image: str
) -> None:
    proxy.hold_on = b"/containers/create"
    results: list[ExecResult] = []

    async def main() -> None:
        results.append(await box.run(SandboxSpec(base_image), Command(("true",), env=ENV)))

    threads = [threading.Thread(target=anyio.run, args=(main,))]
    threads[0].start()
    eventually(lambda: proxy.failures > 0)
    threads.append(threading.Thread(target=box.close))
    threads[1].start()
    for thread in threads:
        thread.join(45)  # the engine itself is given a minute
    assert not any(thread.is_alive() for thread in threads)
    assert [result.status for result in results] == ["cancelled"]


def test_place_of_a_call_stays_taken_until_its_processes_are_gone(
    proxy: CuttableProxy, base_image: str, api: docker.APIClient
) -> None:
    found = engine_behind(proxy)
    box = DockerSandbox(found, warm=False)
    running: list[str] = []

    def pause(*_: object) -> None:
        (call,) = box.status().calls
        running.append(call.container_id)
        proxy.fail_on = call.container_id.encode()  # whatever is asked for it from now on
        api.pause(call.container_id)  # neither the launcher nor its command can do anything now

    spec = SandboxSpec(base_image, limits=Limits(wall_s=5))
    results: list[ExecResult] = []

    async def main() -> None:
        command = Command(("sh", "-c", "echo; sleep 100"), env=ENV)
        results.append(await box.run(spec, command, pause))

    thread = threading.Thread(target=anyio.run, args=(main,))
    try:
        thread.start()
        thread.join(60)
        assert [result.status for result in results] == ["timeout"]
        assert [one["State"] for one in api.containers(filters={"id": running})] == ["paused"]
        assert box.status().running == 1
        proxy.fail_on = None
        eventually(lambda: box.status().running == 0)
        assert not containers(api, pid=os.getpid())
    finally:
        proxy.fail_on = None
        thread.join(60)
        box.close()


def test_engine_that_has_no_room_is_named_and_the_next_call_is_served(
    box: DockerSandbox, proxy: CuttableProxy, base_image: str
) -> None:
    proxy.fail_on = b"/containers/create"
    proxy.answer = answer(500, '{"message": "no space left on device"}')
    with pytest.raises(EngineFault) as failure:
        anyio.run(box.run, SandboxSpec(base_image), Command(("true",), env=ENV))
    assert "no space left" in (failure.value.operator_detail or "")
    proxy.fail_on = None
    result = anyio.run(box.run, SandboxSpec(base_image), Command(("echo", "served"), env=ENV))
    assert result.stdout == b"served\n"
