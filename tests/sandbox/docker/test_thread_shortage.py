"""A program that cannot start a thread for a moment (its user may have no more processes, which the
processes of its own containers can bring about) fails that call at most, and nothing later."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import anyio
import pytest
from tests.sandbox.docker.running import call, containers, eventually

from sandboxed_tools.errors import SandboxUnavailable
from sandboxed_tools.sandbox.docker.backend import DockerSandbox

if TYPE_CHECKING:
    import docker

    from sandboxed_tools.sandbox.contract import SandboxSpec
    from sandboxed_tools.sandbox.docker.engine import Engine

pytestmark = pytest.mark.engine

OF_THE_SANDBOX = (
    "sandbox-disposal",
    "sandbox-errand",
    "sandbox-later",
    "sandbox-pool-fill",
    "sandbox-pool",
    "sandbox-rounds",
    "sandbox-status",
)


@contextlib.contextmanager
def no_new_threads(prefix: str) -> Iterator[list[str]]:
    """No thread with such a name can be started in this block; gives the names of those refused."""
    refused: list[str] = []
    start = threading.Thread.start

    def refusing(thread: threading.Thread) -> None:
        if thread.name.startswith(prefix):
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", refusing)
        yield refused


@pytest.mark.parametrize("prefix", OF_THE_SANDBOX)
def test_shortage_of_threads_is_over_when_it_is_over(
    engine: Engine, spec: SandboxSpec, api: docker.APIClient, prefix: str
) -> None:
    before = containers(api, pid=os.getpid())
    box = DockerSandbox(engine)
    try:
        with no_new_threads(prefix) as refused:
            for _ in range(2):
                with contextlib.suppress(SandboxUnavailable):
                    call(box, spec, "true")
            eventually(lambda: bool(refused))
        assert box.status().calls == ()
        assert call(box, spec, "echo again").stdout == b"again\n"
        assert anyio.run(box.prewarm, spec, 2) == 2
        assert call(box, spec, "echo warm").stdout == b"warm\n"
        eventually(lambda: box.status().removing == 0)
        assert containers(api, kind="call", pid=os.getpid()) <= before
    finally:
        box.close()
    assert containers(api, pid=os.getpid()) <= before


def test_call_that_no_thread_can_carry_out_is_an_error_and_is_forgotten(
    box: DockerSandbox, spec: SandboxSpec
) -> None:
    with no_new_threads("") as refused:
        with pytest.raises(SandboxUnavailable, match="thread"):
            call(box, spec, "true")
        assert refused
    assert box.status().calls == ()
    assert call(box, spec, "echo again").stdout == b"again\n"
