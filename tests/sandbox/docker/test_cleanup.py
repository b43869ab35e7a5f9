"""Clean-up: what dead owners left goes, and nothing else is ever touched."""

from __future__ import annotations

import dataclasses
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from docker.errors import APIError

from sandboxed_tools.errors import EngineFault
from sandboxed_tools.sandbox.docker.cleanup import Listed, gc, judge, ps
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.sandbox.docker.images import resolve_image
from sandboxed_tools.sandbox.docker.owner import LABEL_PREFIX, Owner, Ownership

if TYPE_CHECKING:
    import docker

Labels = Mapping[str, str]


class Engineered:
    """Makes objects with chosen labels, and removes them whatever happens."""

    def __init__(self, api: docker.APIClient, image: str, stack: ExitStack) -> None:
        self.api = api
        self.image = image
        self.stack = stack

    def container(
        self, labels: Labels, *, name: str | None = None, script: str = "sleep 300", **options: Any
    ) -> str:
        identity: str = self.api.create_container(
            self.image,
            ["bash", "-c", script],
            name=name,
            labels=dict(labels),
            host_config=self.api.create_host_config(network_mode="none", **options),
        )["Id"]
        self.stack.callback(self._remove, identity)
        self.api.start(identity)
        return identity

    def _remove(self, identity: str) -> None:
        try:
            self.api.remove_container(identity, force=True, v=True)
        except APIError as error:
            # Gone, or going: a clean-up of the test's own is at work.
            if error.response is None or error.response.status_code not in {404, 409}:
                raise

    def exists(self, identity: str) -> bool:
        return bool(self.api.containers(all=True, filters={"id": identity}))


@pytest.fixture
def make(api: docker.APIClient, base_image: str) -> Iterator[Engineered]:
    with ExitStack() as stack:
        yield Engineered(api, resolve_image(api, base_image).id, stack)


@pytest.fixture
def me() -> Owner:
    return Owner.current()


def dead(me: Owner) -> Owner:
    """An owner whose PID now belongs to somebody else: this very process."""
    return replace(me, started="1")


def hidden(me: Owner) -> Owner:
    return replace(me, pid_namespace="1")


@pytest.mark.engine
def test_what_a_killed_process_left_is_removed(make: Engineered, me: Owner) -> None:
    script = (
        "from sandboxed_tools.sandbox.docker.owner import Owner; import json;"
        "print(json.dumps(Owner.current().labels(deadline_s=600, kind='call')), flush=True);input()"
    )
    import json

    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        labels = json.loads(child.stdout.readline())
        container = make.container(labels)
        alive = gc(make.api)
        assert make.exists(container)
        assert [kept.item.id for kept in alive.kept] == [container]
        child.kill()
        child.wait()
        report = gc(make.api)
    assert [item.id for item in report.removed] == [container]
    assert not make.exists(container)


@pytest.mark.engine
def test_a_container_of_a_living_owner_is_never_touched_even_past_its_deadline(
    make: Engineered, me: Owner
) -> None:
    container = make.container(me.labels(deadline_s=1, kind="call"))
    report = gc(make.api, now=time.time() + 1e6)
    assert report.removed == ()
    assert make.exists(container)


@pytest.mark.engine
@pytest.mark.parametrize("state", ["created", "running", "exited", "paused"])
def test_a_dead_owners_container_goes_in_any_state(make: Engineered, me: Owner, state: str) -> None:
    labels = dead(me).labels(deadline_s=600, kind="call")
    if state == "created":
        container = make.api.create_container(make.image, ["true"], labels=labels)["Id"]
    elif state == "exited":
        container = make.container(labels, script="exit 0")
        make.api.wait(container, timeout=30)
    else:
        container = make.container(labels)
        if state == "paused":
            make.api.pause(container)
    assert [item.state for item in ps(make.api)] == [state]
    assert [item.id for item in gc(make.api).removed] == [container]
    assert not make.exists(container)


@pytest.mark.engine
def test_foreign_containers_with_look_alike_labels_and_names_are_untouched(
    make: Engineered, me: Owner
) -> None:
    doomed = dead(me)
    stranger = replace(doomed, installation="f" * 32)
    whole = doomed.labels(deadline_s=0, kind="call")
    partial = {key: value for key, value in whole.items() if not key.endswith(".pid")}
    old = whole | {LABEL_PREFIX + "created": "1", LABEL_PREFIX + "deadline": "2"}
    other_prefix = {key.replace(LABEL_PREFIX, "sandboxed-tools-x."): v for key, v in whole.items()}
    kept = [
        make.container(stranger.labels(deadline_s=0, kind="call")),
        make.container({}, name=f"sandboxed-tools-{uuid.uuid4().hex}"),
        make.container({LABEL_PREFIX + "installation": me.installation}),
        make.container(partial),
        make.container(other_prefix),
        make.container(old),
    ]
    report = gc(make.api, now=time.time() + 1e6)
    assert report.removed == ()
    assert report.failed == ()
    assert all(make.exists(container) for container in kept)


@pytest.mark.engine
def test_another_pid_namespace_is_left_alone_until_the_deadline(
    make: Engineered, me: Owner
) -> None:
    container = make.container(hidden(me).labels(deadline_s=300, kind="call"))
    assert gc(make.api).removed == ()
    # The grace allows for clocks that differ a little.
    assert gc(make.api, now=time.time() + 320).removed == ()
    assert make.exists(container)
    assert [item.id for item in gc(make.api, now=time.time() + 400).removed] == [container]


@pytest.mark.engine
def test_volumes_and_networks_of_dead_owners_go_after_their_containers(
    make: Engineered, me: Owner
) -> None:
    labels = dead(me).labels(deadline_s=600, kind="view")
    name = f"sandboxed-tools-test-{uuid.uuid4().hex}"
    make.api.create_volume(name, labels=labels)
    make.api.create_network(name, labels=labels, internal=True)
    make.container(labels, binds={name: {"bind": "/mnt", "mode": "rw"}})
    report = gc(make.api)
    assert [item.type for item in report.removed] == ["container", "volume", "network"]
    assert ps(make.api) == ()


@pytest.mark.engine
def test_a_volume_in_use_by_a_living_container_is_reported_and_not_forced(
    make: Engineered, me: Owner
) -> None:
    name = f"sandboxed-tools-test-{uuid.uuid4().hex}"
    make.api.create_volume(name, labels=dead(me).labels(deadline_s=600, kind="view"))
    user = make.container(
        {},
        binds={name: {"bind": "/mnt", "mode": "rw"}},
    )
    report = gc(make.api)
    assert [kept.item.name for kept in report.failed] == [name]
    assert make.exists(user)
    make.api.remove_container(user, force=True)
    assert [item.name for item in gc(make.api).removed] == [name]


@pytest.mark.engine
def test_a_container_that_hardly_gets_any_cpu_is_removed(make: Engineered, me: Owner) -> None:
    spinners = "for i in {1..50}; do while :; do :; done & done; wait"
    container = make.container(
        dead(me).labels(deadline_s=600, kind="call"),
        script=spinners,
        cpu_period=1_000_000,
        cpu_quota=1_000,
    )
    report = gc(make.api, item_timeout_s=20)
    assert [item.id for item in report.removed] == [container]


@pytest.mark.engine
def test_a_container_with_unread_output_does_not_hang_the_clean_up(
    engine: Engine, make: Engineered, me: Owner
) -> None:
    labels = dead(me).labels(deadline_s=600, kind="call")
    container = make.api.create_container(
        make.image, ["bash", "-c", "head -c 8000000 /dev/zero"], labels=labels
    )["Id"]
    path = engine.endpoint.socket_path
    if path is None:
        pytest.skip("speaks to the engine's socket itself")
    with socket.socket(socket.AF_UNIX) as reader:
        reader.connect(path)
        target = f"/containers/{container}/attach?stream=1&stdout=1"
        reader.sendall(f"POST {target} HTTP/1.1\r\nHost: engine\r\nUpgrade: tcp\r\n\r\n".encode())
        assert reader.recv(12).startswith(b"HTTP/1.1 ")
        make.api.start(container)
        other = make.container(labels)
        report = gc(make.api, item_timeout_s=3)
        assert other in {item.id for item in report.removed}
        assert not make.exists(other)
    # The connection is closed now, which ends the deadlock.
    deadline = time.monotonic() + 30
    while make.exists(container):
        assert time.monotonic() < deadline
        gc(make.api)
        time.sleep(0.1)


@pytest.mark.engine
def test_two_clean_ups_at_once_do_not_disturb_each_other(
    engine: Engine, make: Engineered, me: Owner
) -> None:
    from concurrent.futures import ThreadPoolExecutor

    containers = {make.container(dead(me).labels(deadline_s=9, kind="call")) for _ in range(4)}

    def clean(_: int) -> tuple[str, ...]:
        with closing(engine.api()) as own:
            report = gc(own)
            assert report.failed == ()
            return tuple(item.id for item in report.removed)

    with ThreadPoolExecutor(2) as pool:
        removed = {identity for found in pool.map(clean, range(2)) for identity in found}
    assert removed == containers
    deadline = time.monotonic() + 20
    while any(make.exists(container) for container in containers):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_engine_that_is_gone_is_a_fault(engine: Engine, tmp_path: os.PathLike[str]) -> None:
    from sandboxed_tools.sandbox.docker.endpoints import Endpoint

    gone = dataclasses.replace(engine, endpoint=Endpoint(f"unix://{tmp_path}/x", source="test"))
    with closing(gone.api()) as own, pytest.raises(EngineFault, match="doctor"):
        ps(own)


NOW = 1_000_000.0


def listed(**change: object) -> Listed:
    owner = Owner("i", "m", "b", "p", "t", 1, "1")
    ownership = Ownership(owner, "call", created=int(NOW) - 100, deadline=int(NOW) - 50)
    item = Listed(
        type="container",
        id="c",
        name="n",
        image="x",
        state="running",
        created=NOW - 100,
        ownership=ownership,
        life="unknown",
    )
    return replace(item, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "now", "remove"),
    [
        ({"life": "dead"}, NOW, True),
        ({"life": "dead"}, 0.0, True),
        ({"life": "alive"}, NOW + 1e9, False),
        ({"life": "unknown"}, NOW, False),
        ({"life": "unknown"}, NOW + 20, True),
        ({"life": "dead", "created": NOW + 1000}, NOW, False),
        ({"life": "dead", "created": NOW - 100 - 299}, NOW, True),
        ({"life": "dead", "created": NOW - 100 - 301}, NOW, False),
        ({"life": "dead", "created": None}, NOW, False),
        ({"life": "dead", "created": NOW + 1e9, "type": "volume"}, NOW, True),
        ({"life": "dead", "ownership": None}, NOW, False),
        ({"life": "unknown"}, -1e12, False),
    ],
)
def test_only_what_is_proved_is_removed_whatever_the_clock_says(
    change: dict[str, object], now: float, remove: bool
) -> None:
    verdict = judge(listed(**change), now=now)
    assert verdict.remove is remove
    assert verdict.reason


def test_a_clean_up_against_an_engine_that_never_answers_ends(
    engine: Engine, tmp_path: os.PathLike[str]
) -> None:
    import tempfile

    from sandboxed_tools.sandbox.docker.endpoints import Endpoint

    with tempfile.TemporaryDirectory(prefix="s-") as folder, socket.socket(socket.AF_UNIX) as wedge:
        wedge.bind(f"{folder}/x")
        wedge.listen(8)
        silent = Endpoint(f"unix://{folder}/x", source="test")
        with closing(dataclasses.replace(engine, endpoint=silent).api(timeout_s=0.3)) as own:
            with pytest.raises(EngineFault):
                gc(own)
