"""The image of Python tools: made from this program's packages, refused where they cannot fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from importlib import metadata
from typing import TYPE_CHECKING, Any

import pytest
from tests.sandbox.docker.own_image import built_image

from sandboxed_tools.errors import ImageUnavailable
from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.sandbox.docker import DockerSandbox, python_context, python_images
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.sandbox.docker.images import (
    BASE_IMAGE,
    DATA_IMAGE,
    EVERY_NAME,
    PYTHON_IMAGE,
    image_revision,
    image_tag,
    list_images,
    resolve_image,
)
from sandboxed_tools.tool import AnyTool, Context, ToolInput, build_tool
from sandboxed_tools.tool.state import installation_id

if TYPE_CHECKING:
    import docker


class Nothing(ToolInput):
    pass


def versions(tool_input: Nothing, ctx: Context[Any]) -> dict[str, str]:
    import cloudpickle
    import pydantic

    return {"pydantic": pydantic.VERSION, "cloudpickle": cloudpickle.__version__}


def only_there(tool_input: Nothing, ctx: Context[Any]) -> str:
    import only_in_this_image  # type: ignore[import-not-found]

    return str(only_in_this_image.answer)


def tool(call: Any) -> AnyTool:
    return build_tool(
        name="Moves",
        description="x",
        input_schema=Nothing,
        call=call,
        needs_sandbox=True,
        requires_confirmation=False,
        carry=(__name__,),
    )


@pytest.mark.engine
def test_the_image_is_ours_and_brings_its_launcher(
    api: docker.APIClient, python_image: str
) -> None:
    image = resolve_image(api, python_image)
    assert image.ours
    assert image.has_launcher
    assert image.user == "10000:10000"
    assert [state.name for state in list_images(api, EVERY_NAME)] == list(EVERY_NAME)


@pytest.mark.engine
async def test_both_sides_have_the_same_packages(engine: Engine, python_image: str) -> None:
    moved = tool(versions)
    sandbox = DockerSandbox(engine, warm=False)
    try:
        async with Toolbox([moved], sandbox=sandbox) as box:
            output = (await box.call(moved, {})).output
    finally:
        await sandbox.aclose()
    assert output == {name: metadata.version(name) for name in ("pydantic", "cloudpickle")}


@pytest.fixture(scope="module")
def own_image(engine: Engine, python_image: str) -> Iterator[str]:
    tag = f"st-test-own:{installation_id()[:12]}"
    lines = (
        f"FROM {image_tag(python_image)}",
        "USER root",
        "RUN /opt/sandboxed-tools/python -c \"import sysconfig; open(sysconfig.get_path('purelib',"
        " 'deb_system' if 'deb_system' in sysconfig.get_scheme_names() else"
        " sysconfig.get_default_scheme()) + '/only_in_this_image.py', 'w').write('answer = 42')\"",
        "USER 10000",
    )
    with (
        closing(engine.api(timeout_s=120)) as api,
        built_image(api, tag, "\n".join(lines)),
    ):
        yield tag


@pytest.mark.engine
async def test_an_image_that_extends_it_serves_calls_with_what_it_adds(
    engine: Engine, own_image: str
) -> None:
    moved = tool(only_there)
    sandbox = DockerSandbox(engine)
    try:
        async with Toolbox([moved], sandbox=sandbox, python_image=own_image) as box:
            for _ in range(2):
                assert (await box.call(moved, {})).output == "42"
    finally:
        await sandbox.aclose()


def test_its_version_follows_the_packages_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: image_revision(name) for name in EVERY_NAME}
    assert len(set(before.values())) == len(EVERY_NAME)
    monkeypatch.setattr("sandboxed_tools.sandbox.docker.images.python_digest", lambda: "other")
    after = {name: image_revision(name) for name in EVERY_NAME}
    changed = {name for name in EVERY_NAME if before[name] != after[name]}
    assert changed == {PYTHON_IMAGE, DATA_IMAGE}
    assert BASE_IMAGE not in changed


def test_the_context_holds_the_runner_and_nothing_of_the_clients_other_rooms() -> None:
    files = python_context.python_context()
    assert "sandboxed_tools/inside/runner.py" in files
    assert any(name.startswith("pydantic_core/") for name in files)
    own = {name.split("/")[1] for name in files if name.startswith("sandboxed_tools/")}
    assert own == {"__init__.py", "errors.py", "inside", "tool"}
    assert not any(".." in name or name.startswith("/") for name in files)


def test_an_engine_of_another_kind_of_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImageUnavailable, match="riscv64"):
        python_context.check_machine("riscv64")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    python_context.check_machine("amd64")
    monkeypatch.setattr("platform.libc_ver", lambda: ("", ""))
    with pytest.raises(ImageUnavailable, match="C library"):
        python_context.check_machine("amd64")


@pytest.mark.engine
def test_a_python_that_nobody_gives_out_is_a_clear_refusal(
    engine: Engine, base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_images, "MINOR", "3.99")
    monkeypatch.setattr(python_images, "OFFICIAL_PYTHON", "127.0.0.1:1/python:3.99")
    monkeypatch.setattr(python_images, "image_tag", lambda name: tag_of_trial(name))
    monkeypatch.setattr(
        "sandboxed_tools.sandbox.docker.image_build.image_tag", lambda name: tag_of_trial(name)
    )
    with pytest.raises(ImageUnavailable, match=r"Python 3\.99"):
        python_images.build_python_images(engine, rebuild=True)


def tag_of_trial(name: str) -> str:
    return image_tag(name) if name == BASE_IMAGE else f"st-test-trial:{installation_id()[:12]}"
