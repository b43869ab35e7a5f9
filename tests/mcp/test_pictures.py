"""What code left as a picture is shown as one only when it is one; anything else is a link."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError
from tests.builtin.sample_pictures import jpeg, png
from tests.mcp.serving import stdio_server, texts

from sandboxed_tools.mcp import ServerOptions, Sessions, build_server
from sandboxed_tools.mcp import artifacts as kept_artifacts
from sandboxed_tools.policy import Policy
from sandboxed_tools.sandbox.contract import Capabilities, OutputSink, SandboxSpec
from sandboxed_tools.tool import Command, ExecResult


class Coding:
    """Implements ``Sandbox``: code that left these files."""

    def __init__(self, **files: bytes) -> None:
        self.files = files

    async def run(
        self, spec: SandboxSpec, command: Command, on_output: OutputSink | None = None
    ) -> ExecResult:
        artifacts = [
            {"name": name, "data": base64.b64encode(data).decode()}
            for name, data in self.files.items()
        ]
        answer = {
            "exit_code": 0,
            "value": None,
            "error": None,
            "artifacts": artifacts,
            "left_out": [],
        }
        frames = (("C", json.dumps(answer).encode()),)
        return ExecResult("exited", exit_code=0, frames=frames)

    async def capabilities(self) -> Capabilities:
        return Capabilities("coding", {}, ())

    async def aclose(self) -> None:
        pass


ALLOW = Policy.model_validate({"allow": ["ExecuteCode"]})
CODE = {"code": "1"}


@asynccontextmanager
async def connected(sandbox: Coding) -> AsyncIterator[Client]:
    async with (
        Sessions(ServerOptions(sandbox=sandbox, policy=ALLOW)) as sessions,
        Client(build_server(sessions), mode="legacy") as client,
    ):
        yield client


async def test_pictures_come_as_pictures_and_the_rest_as_links_that_can_be_read() -> None:
    sandbox = Coding(**{"a.png": png(), "b.csv": b"a,b\n1,2\n", "c": jpeg(), "d.bin": b"\0\1\2"})
    async with connected(sandbox) as client:
        result = await client.call_tool("ExecuteCode", CODE)
        kinds = [block.type for block in result.content]
        assert kinds == ["text", "image", "resource_link", "image", "resource_link"]
        _, first, table, second, binary = result.content
        assert isinstance(first, types.ImageContent)
        assert isinstance(second, types.ImageContent)
        assert (first.mime_type, base64.b64decode(first.data)) == ("image/png", png())
        assert second.mime_type == "image/jpeg"
        assert isinstance(table, types.ResourceLink)
        assert isinstance(binary, types.ResourceLink)
        assert (table.name, table.mime_type, table.size) == ("b.csv", "text/plain", 8)
        assert binary.mime_type == "application/octet-stream"

        (read,) = (await client.read_resource(table.uri)).contents
        assert isinstance(read, types.TextResourceContents)
        assert read.text == "a,b\n1,2\n"
        (read,) = (await client.read_resource(binary.uri)).contents
        assert isinstance(read, types.BlobResourceContents)
        assert base64.b64decode(read.blob) == b"\0\1\2"
        listed = (await client.list_resources()).resources
        assert [item.name for item in listed] == ["a.png", "b.csv", "c", "d.bin"]


@pytest.mark.parametrize(
    "data", [b"\x89PNG\r\n\x1a\nnothing", png(9000, 9000), b"<svg/>", jpeg()[:-2]]
)
async def test_a_file_that_only_says_that_it_is_a_picture_is_a_link(data: bytes) -> None:
    async with connected(Coding(**{"x.png": data})) as client:
        result = await client.call_tool("ExecuteCode", CODE)
        _, link = result.content
        assert isinstance(link, types.ResourceLink)
        assert not (link.mime_type or "").startswith("image/")


async def test_more_pictures_than_a_result_takes_are_links() -> None:
    large = png(padding=3_000_000)
    files = {f"{number}.png": png() for number in range(12)}
    async with connected(Coding(**files)) as client:
        result = await client.call_tool("ExecuteCode", CODE)
        kinds = [block.type for block in result.content][1:]
        assert kinds == ["image"] * 8 + ["resource_link"] * 4
    async with connected(Coding(a=large, b=large, c=large)) as client:
        result = await client.call_tool("ExecuteCode", CODE)
        assert [block.type for block in result.content][1:] == ["image", "image", "resource_link"]


async def test_a_hostile_name_steers_nothing_and_is_no_part_of_a_uri() -> None:
    name = "\x1b[2J\u202e" + "x" * 1000 + "/../../etc/passwd\n"
    async with connected(Coding(**{name.replace("..", "."): b"data"})) as client:
        _, link = (await client.call_tool("ExecuteCode", CODE)).content
        assert isinstance(link, types.ResourceLink)
        assert len(link.name) <= 200
        assert not set(link.name) & {"\x1b", "\u202e", "\n"}
        assert "x" not in link.uri.removeprefix("sandboxed-tools://artifacts/")


async def test_old_files_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_artifacts, "MAX_KEPT_BYTES", 250)
    async with connected(Coding(**{"data.bin": b"\0" * 100})) as client:
        links = [
            block
            for _ in range(3)
            for block in (await client.call_tool("ExecuteCode", CODE)).content
            if isinstance(block, types.ResourceLink)
        ]
        assert len((await client.list_resources()).resources) == 2
        with pytest.raises(MCPError, match="not found"):
            await client.read_resource(links[0].uri)
        await client.read_resource(links[2].uri)


async def test_one_client_does_not_read_what_is_another_s() -> None:
    async with connected(Coding(a=b"\0data")) as mine, connected(Coding()) as other:
        _, link = (await mine.call_tool("ExecuteCode", CODE)).content
        assert isinstance(link, types.ResourceLink)
        with pytest.raises(MCPError, match="not found"):
            await other.read_resource(link.uri)


async def test_a_picture_that_was_read_is_shown_and_a_broken_one_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "good.png").write_bytes(png())
    (tmp_path / "bad.png").write_bytes(png()[:-3])
    served = ServerOptions(sandbox=Coding(), workspaces=(tmp_path,))
    async with (
        Sessions(served) as sessions,
        Client(build_server(sessions), mode="legacy") as client,
    ):
        for name, kind in (("good.png", "image"), ("bad.png", "resource_link")):
            result = await client.call_tool("Read", {"file_path": str(tmp_path / name)})
            assert [block.type for block in result.content] == ["text", kind]


FIGURE = f"""
import base64, os
folder = os.environ["ARTIFACTS"]
with open(os.path.join(folder, "figure.png"), "wb") as file:
    file.write(base64.b64decode({base64.b64encode(png()).decode()!r}))
with open(os.path.join(folder, "table.csv"), "w") as file:
    file.write("a,b")
"""


async def _yes(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"answer": "once"})


@pytest.mark.engine
@pytest.mark.usefixtures("python_image")
async def test_a_figure_of_real_code_is_shown() -> None:
    async with Client(stdio_server(), mode="legacy", elicitation_callback=_yes) as client:
        result = await client.call_tool("ExecuteCode", {"code": FIGURE})
        assert not result.is_error, texts(result)
        assert [block.type for block in result.content] == ["text", "image", "resource_link"]
