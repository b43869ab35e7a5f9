"""What a call cost is counted, also when nobody trustworthy has measured it."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import docker
import pytest
from tests.sandbox.docker.running import ENV

from sandboxed_tools.errors import Overloaded
from sandboxed_tools.sandbox.budget import Budget
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker.backend import DockerSandbox
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.sandbox.docker.images import image_tag
from sandboxed_tools.sandbox.docker.surroundings import Caller
from sandboxed_tools.tool.command import Command

pytestmark = pytest.mark.engine


@pytest.fixture
def box(engine: Engine) -> Iterator[DockerSandbox]:
    box = DockerSandbox(engine, warm=False, budget=Budget(cpu_s=0.0001))
    yield box
    box.close()


def refused(box: DockerSandbox, spec: SandboxSpec, key: str) -> str:
    with pytest.raises(Overloaded) as failure:
        run(box, spec, key)
    return failure.value.what


def run(box: DockerSandbox, spec: SandboxSpec, key: str) -> None:
    async def main() -> None:
        await box.run(spec, Command(("sleep", "0.1"), env=ENV), caller=Caller(key=key))

    anyio.run(main)


def test_processor_time_of_a_key_is_counted_and_refuses_it_alone(
    box: DockerSandbox, base_image: str
) -> None:
    spec = SandboxSpec(base_image)
    run(box, spec, "one")
    assert refused(box, spec, "one") == "budget: processor seconds"
    run(box, spec, "other")


def test_call_whose_launcher_was_ended_counts_as_much_as_its_limits_allowed(
    box: DockerSandbox, base_image: str, api: docker.APIClient
) -> None:
    spec = SandboxSpec(base_image)

    def kill(*_: object) -> None:
        for call in box.status().calls:
            api.kill(call.container_id)

    async def main() -> None:
        command = Command(("sh", "-c", "echo; sleep 100"), env=ENV)
        result = await box.run(spec, command, kill, caller=Caller(key="one"))
        assert (result.status, result.usage.cpu_s) == ("signalled", None)

    anyio.run(main)
    assert refused(box, spec, "one") == "budget: processor seconds"


def test_figures_of_an_image_that_is_not_ours_count_as_much_as_its_limits_allowed(
    box: DockerSandbox, base_image: str, api: docker.APIClient
) -> None:
    name = "sandboxed-tools-test/accounts"
    made = api.create_container_from_config(  # type: ignore[no-untyped-call]
        {"Image": image_tag(base_image), "Env": ["FOREIGN=1"]}, None
    )
    try:
        api.commit(made["Id"], name, "here")
    finally:
        api.remove_container(made["Id"])
    try:
        spec = SandboxSpec(f"{name}:here")
        run(box, spec, "one")
        assert refused(box, spec, "one") == "budget: processor seconds"
    finally:
        api.remove_image(f"{name}:here", force=True)
