"""A malicious image: its runner answers with pickles, bombs and lies; the host takes no harm."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from pydantic import BaseModel
from tests.sandbox.docker.own_image import built_image

from sandboxed_tools.builtin import ExecuteCode
from sandboxed_tools.errors import CallError, RemoteError, ToolFailed
from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.sandbox.docker import DockerSandbox
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.tool import AnyTool, Context, Limits, ToolInput, build_tool
from sandboxed_tools.tool.state import installation_id

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.engine

CANARY = Path("/tmp/st-unpickled-on-the-host")
MIB = 1024 * 1024


class In(ToolInput):
    text: str


class Out(BaseModel):
    text: str


def work(tool_input: In, ctx: Context[Any]) -> Out:
    return Out(text="honest")


MOVED: AnyTool = build_tool(
    name="Moves",
    description="x",
    input_schema=In,
    call=work,
    needs_sandbox=True,
    requires_confirmation=False,
    carry=(__name__,),
)


@pytest.fixture(scope="module")
def hostile_image(engine: Engine, python_image: str) -> Iterator[str]:
    from sandboxed_tools.sandbox.docker.images import image_tag

    tag = f"st-test-hostile:{installation_id()[:12]}"
    dockerfile = (
        f"FROM {image_tag(python_image)}\nUSER root\n"
        "RUN rm /opt/sandboxed-tools/python\n"
        "COPY hostile_runner.py /opt/sandboxed-tools/python\n"
        "RUN chmod 755 /opt/sandboxed-tools/python\nUSER 10000\n"
    )
    runner = (Path(__file__).parent / "hostile_runner.py").read_bytes()
    with (
        closing(engine.api(timeout_s=120)) as api,
        built_image(api, tag, dockerfile, {"hostile_runner.py": runner}),
    ):
        yield tag


@pytest.fixture(scope="module")
async def box(engine: Engine, hostile_image: str) -> AsyncIterator[Toolbox]:
    async def agrees(_: object) -> bool:
        return True

    sandbox = DockerSandbox(engine)
    try:
        async with Toolbox(
            [MOVED, ExecuteCode],
            sandbox=sandbox,
            python_image=hostile_image,
            confirmer=agrees,
            limits=Limits.of(wall_s=60, output_total_bytes="256m"),
        ) as opened:
            yield opened
    finally:
        await sandbox.aclose()


@pytest.mark.parametrize(
    "attack",
    [
        *("pickle", "pickle as error", "deep", "deep error", "bomb", "digits", "nan", "infinity"),
        *("no text", "twice", "wrong", "empty", "error", "error fields", "lack", "silence"),
    ],
)
async def test_an_answer_that_is_no_output_is_a_typed_error(box: Toolbox, attack: str) -> None:
    with pytest.raises(ToolFailed):
        await box.call(MOVED, {"text": attack})
    assert not CANARY.exists()


@pytest.mark.parametrize("attack", ["endless", "one endless frame"])
async def test_endless_frames_end_the_call_in_bounded_memory(box: Toolbox, attack: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ToolFailed):
            await box.call(MOVED, {"text": attack})
        assert tracemalloc.get_traced_memory()[1] < 120 * MIB
    finally:
        tracemalloc.stop()


async def test_a_flood_of_progress_stalls_nothing(box: Toolbox) -> None:
    told: list[object] = []
    with anyio.fail_after(150):
        result = await box.call(MOVED, {"text": "progress"}, on_progress=told.append)
    assert result.output == Out(text="after")
    assert len(told) <= 200_000


async def test_escapes_in_what_comes_back_reach_no_terminal(
    box: Toolbox, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="sandboxed_tools"), pytest.raises(ToolFailed) as caught:
        await box.call(MOVED, {"text": "escapes"})
    assert isinstance(caught.value.__cause__, RemoteError)
    assert not any("\x1b" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    "attack", ["code", "big artifact", "many artifacts", "exit", "pickle as error", "lack"]
)
async def test_a_lying_answer_of_code_is_a_typed_error(box: Toolbox, attack: str) -> None:
    with pytest.raises(CallError):
        await box.call(ExecuteCode, {"code": f"# {attack}"})
    assert not CANARY.exists()


async def test_code_without_an_answer_is_a_result_without_one(box: Toolbox) -> None:
    result = await box.call(ExecuteCode, {"code": "# silence"})
    assert result.output.value is None
    assert result.output.artifacts == ()
