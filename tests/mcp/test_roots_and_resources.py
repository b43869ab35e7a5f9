"""A client's roots choose among what the operator opened; its URIs name what it has, no path."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPDeprecationWarning, MCPError
from tests.mcp.serving import texts
from tests.mcp.slow_sandbox import SlowSandbox

from sandboxed_tools.mcp import ServerOptions, Sessions, build_server
from sandboxed_tools.mcp.roots import choose_workspace, path_of_root
from sandboxed_tools.tool import ChangeSummary


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    folder = tmp_path / "allowed"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "here.txt").write_text("x")
    return folder


@asynccontextmanager
async def connected(sandbox: Any = None, **options: Any) -> AsyncIterator[Client]:
    client_options = options.pop("client", {})
    served = ServerOptions(sandbox=sandbox or SlowSandbox(), **options)
    async with Sessions(served) as sessions:
        async with Client(build_server(sessions), mode="legacy", **client_options) as client:
            yield client


def with_roots(*uris: str) -> dict[str, Any]:
    async def roots(ctx: Any) -> types.ListRootsResult:
        return types.ListRootsResult(
            roots=[types.Root.model_validate({"uri": uri}) for uri in uris]
        )

    return {"list_roots_callback": roots}


async def files_seen(client: Client) -> str:
    return texts(await client.call_tool("Glob", {"pattern": "**/*.txt"}))


async def test_a_root_below_an_allowed_folder_is_the_workspace(allowed: Path) -> None:
    other = allowed.parent / "other"
    other.mkdir()
    async with connected(
        workspaces=(other, allowed), client=with_roots((allowed / "inner").as_uri())
    ) as client:
        assert "here.txt" in await files_seen(client)


async def test_without_usable_roots_the_first_allowed_folder_is_the_workspace(
    allowed: Path,
) -> None:
    for roots in ((), ("file:///etc",), ("file:///nonexistent",)):
        async with connected(workspaces=(allowed,), client=with_roots(*roots)) as client:
            assert "inner/here.txt" in await files_seen(client)


async def test_roots_are_asked_for_once_and_move_no_session_later(allowed: Path) -> None:
    elsewhere = allowed / "elsewhere"
    elsewhere.mkdir()
    answers = [(allowed / "inner").as_uri(), elsewhere.as_uri()]
    asked: list[str] = []

    async def roots(ctx: Any) -> types.ListRootsResult:
        asked.append(answers[len(asked)])
        return types.ListRootsResult(roots=[types.Root.model_validate({"uri": asked[-1]})])

    async with connected(workspaces=(allowed,), client={"list_roots_callback": roots}) as client:
        assert "here.txt" in await files_seen(client)
        with pytest.warns(MCPDeprecationWarning):
            await client.session.send_roots_list_changed()
        assert "here.txt" in await files_seen(client)
    assert len(asked) == 1


async def test_without_an_allowed_folder_no_root_opens_one(allowed: Path) -> None:
    async with connected(client=with_roots(allowed.as_uri())) as client:
        result = await client.call_tool("Glob", {"pattern": "*"})
        assert result.is_error
        assert "here.txt" not in texts(result)


async def test_a_client_whose_roots_fail_or_never_come_is_served_all_the_same(
    allowed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandboxed_tools.mcp.roots.ROOTS_TIMEOUT_S", 0.3)

    async def never(ctx: Any) -> types.ListRootsResult:
        await anyio.sleep_forever()
        raise AssertionError

    async def fails(ctx: Any) -> types.ErrorData:
        return types.ErrorData(code=-32603, message="no")

    for callback in (never, fails):
        async with connected(
            workspaces=(allowed,), client={"list_roots_callback": callback}
        ) as client:
            assert "here.txt" in await files_seen(client)


async def test_a_root_cannot_leave_by_dots_links_or_escapes(allowed: Path) -> None:
    secret = allowed.parent / "secret"
    secret.mkdir()
    (allowed / "link").symlink_to(secret)
    beside = Path(f"{allowed}-beside")
    beside.mkdir()
    for uri in (
        f"file://{allowed}/../secret",
        f"file://{allowed}/%2e%2e/secret",
        f"file://{allowed}/%2E%2E%2Fsecret",
        f"file://{allowed}/link",
        f"file://{beside}",
        f"file://{allowed}%00/inner",
        f"file://evil.example{allowed}",
        f"file:{secret}",
        f"FILE://{secret}",
        f"file://{allowed}/inner/here.txt",
        "file://",
        "file:///",
    ):
        assert await choose_workspace([uri], [allowed]) == allowed.resolve(), uri


@given(st.text())
def test_no_text_as_root_breaks_anything(uri: str) -> None:
    for text in (uri, f"file://{uri}", f"file:///{uri}"):
        path = path_of_root(text)
        assert path is None or path.is_absolute()


async def test_names_of_any_bytes_can_be_roots(allowed: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(allowed) + b"/\xff name #1?"))
    folder.mkdir()
    assert await choose_workspace([folder.as_uri()], [allowed]) == folder


async def test_a_long_result_is_a_link_that_can_be_read(allowed: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(20_000))
    sandbox = SlowSandbox(prints=text.encode())
    sandbox.let_go.set()
    async with connected(sandbox, workspaces=(allowed,)) as client:
        result = await client.call_tool("Bash", {"command": "touch x"})
        (link,) = [block for block in result.content if block.type == "resource_link"]
        assert len(texts(result)) < 70_000
        assert len(result.structured_content["stdout"]) < 70_000
        assert result.structured_content["truncated"] is True
        (content,) = (await client.read_resource(link.uri)).contents
        assert isinstance(content, types.TextResourceContents)
        assert text in content.text
        assert [item.uri for item in (await client.list_resources()).resources] == [link.uri]
        assert "/" not in link.uri.removeprefix("sandboxed-tools://results/"), "no path in it"


async def test_no_uri_reads_anything_but_what_is_listed(allowed: Path) -> None:
    sandbox = SlowSandbox(changes=ChangeSummary("held", id="0123abcd", added=1))
    sandbox.let_go.set()
    async with connected(sandbox, workspaces=(allowed,)) as client:
        await client.call_tool("Bash", {"command": "touch x"})
        for uri in (
            "file:///etc/passwd",
            "sandboxed-tools://results/../../etc/passwd",
            "sandboxed-tools://results/%2e%2e%2fpasswd",
            "sandboxed-tools://results/0123abcd",
            "sandboxed-tools://results/0123abcd\n",
            "sandboxed-tools://changes/",
            "sandboxed-tools://changes/0123abce",
            "sandboxed-tools://changes/0123abcd/../0123abcd",
            "sandboxed-tools://changes/0123abcd?x",
            "sandboxed-tools://audit/0123abcd",
            "sandboxed-tools://artifacts/0123abcd-1",
            "sandboxed-tools://artifacts/../../etc/passwd",
            "sandboxed-tools://changes/0123abcd-1",
            "SANDBOXED-TOOLS://changes/0123abcd",
            "sandboxed-tools://changes/" + "0" * 100_000,
            "",
        ):
            with pytest.raises(MCPError):
                await client.read_resource(uri)
        # Listed, and not kept any more: gone, and no traceback.
        with pytest.raises(MCPError, match="not found"):
            await client.read_resource("sandboxed-tools://changes/0123abcd")


async def test_templates_name_every_kind(allowed: Path) -> None:
    async with connected(workspaces=(allowed,)) as client:
        found = (await client.list_resource_templates()).resource_templates
        assert {item.uri_template for item in found} == {
            "sandboxed-tools://changes/{id}",
            "sandboxed-tools://results/{call_id}",
            "sandboxed-tools://artifacts/{call_id}-{number}",
        }
