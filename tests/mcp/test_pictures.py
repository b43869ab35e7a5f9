"""What code left as a picture is shown as one only when it is one; anything else is a link."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPError
from tests.mcp.serving import stdio_server, texts

from sandboxed_tools.builtin.picture_type import MAX_PICTURE_BYTES, picture_type
from sandboxed_tools.mcp import ServerOptions, Sessions, build_server
from sandboxed_tools.mcp import artifacts as kept_artifacts
from sandboxed_tools.policy import Policy
from sandboxed_tools.sandbox.contract import Capabilities, OutputSink, SandboxSpec
from sandboxed_tools.tool import Command, ExecResult


def chunk(name: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(width: int = 2, height: int = 2, *, padding: int = 0) -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    rows = zlib.compress(b"\0" * (3 * 2))
    text = chunk(b"tEXt", b"Comment\0" + b"x" * padding) if padding else b""
    return b"\x89PNG\r\n\x1a\n" + head + text + chunk(b"IDAT", rows) + chunk(b"IEND")


def jpeg(width: int = 1, height: int = 1) -> bytes:
    frame = struct.pack(">HBHHBBBB", 11, 8, height, width, 1, 1, 0x11, 0)
    scan = b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00" + b"\x00\xff\xd9"
    start = b"\xff\xd8\xff\xe0\x00\x10JFIF\0" + b"\1\1\0\0\1\0\1\0\0"
    return start + b"\xff\xff\xc0" + frame + scan


GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
LOSSY = base64.b64decode("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")
LOSSLESS = base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")


def webp_with_canvas(width: int, height: int) -> bytes:
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBPVP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + size
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (png(), "image/png"),
        (jpeg(), "image/jpeg"),
        (GIF, "image/gif"),
        (LOSSY, "image/webp"),
        (LOSSLESS, "image/webp"),
        (webp_with_canvas(640, 480), "image/webp"),
        (png(8000, 8000), "image/png"),
    ],
)
def test_a_whole_picture_has_its_type(data: bytes, kind: str) -> None:
    assert picture_type(data) == kind


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x89PNG\r\n\x1a\n",
        b"\x89PNG\r\n\x1a\n" + b"not at all" * 20,
        png()[:-1],
        png() + b"<script>",
        png()[:20] + b"\xff" + png()[21:],
        png().replace(b"IEND", b"IEnD"),
        png(8001, 2),
        png(0, 2),
        png(2**31, 2**31),
        png(padding=MAX_PICTURE_BYTES),
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", b"\0" * 13) + chunk(b"aaaa") * 100_000,
        b"\xff\xd8\xff",
        b"\xff\xd8" + b"\xff" * 1_000_000 + b"\xd9",
        b"\xff\xd8" + b"\xff\xe0\x00\x00" * 100_000 + b"\xff\xd9",
        jpeg()[:-2],
        jpeg(9000, 1),
        jpeg(0, 1),
        GIF[:-1],
        b"GIF89a;",
        LOSSY[:-1],
        LOSSY + b"x",
        webp_with_canvas(9000, 1),
        b"RIFF\x04\0\0\0WEBP",
        b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
        b"%PDF-1.7",
    ],
)
def test_what_is_no_whole_picture_has_none(data: bytes) -> None:
    assert picture_type(data) is None


@given(st.binary(max_size=200), st.sampled_from([png(), jpeg(), GIF, LOSSY, LOSSLESS]), st.data())
def test_no_bytes_break_it(noise: bytes, picture: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(picture)))
    picture_type(noise)
    picture_type(picture[:at] + noise)
    picture_type(picture[:at] + noise + picture[at:])


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
