"""Whatever a call comes to, its structured content fits the output schema that was listed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp import Client
from tests.builtin.sample_pictures import png
from tests.mcp.test_pictures import Coding

from sandboxed_tools import ToolInput, build_tool
from sandboxed_tools.builtin import SHIPPED
from sandboxed_tools.mcp import ServerOptions, Sessions, build_server
from sandboxed_tools.policy import Policy
from sandboxed_tools.sandbox.contract import Capabilities, OutputSink, SandboxSpec
from sandboxed_tools.tool import AnyTool, ChangeSummary, Command, ExecResult
from sandboxed_tools.tool.result import Usage

ALLOW = Policy.model_validate({"allow": ["ExecuteCode"]})
RESULTS = {
    "empty": ExecResult("exited", exit_code=0),
    "failed": ExecResult("exited", exit_code=255, stderr=b"\xff\x00\x1b[2J", stderr_bytes=6),
    "signalled": ExecResult("signalled", signal=9),
    "timeout": ExecResult("timeout", limits_hit=frozenset({"wall", "cpu"})),
    "cancelled": ExecResult("cancelled"),
    "measured": ExecResult("oom", usage=Usage(1.5, 4096, 3), image="sha256:0"),
    "long": ExecResult("exited", exit_code=0, stdout=b"\xf0\x9f\x98\x80" * 100_000),
    "held": ExecResult(
        "exited", exit_code=0, changes=ChangeSummary("held", id="0123abcd", added=1, deleted=2)
    ),
    "applied": ExecResult("exited", exit_code=0, changes=ChangeSummary("applied", id="0123abce")),
    "none": ExecResult("exited", exit_code=0, changes=ChangeSummary("none")),
}


class Giving:
    """Implements ``Sandbox``: every command comes to this."""

    def __init__(self, result: ExecResult) -> None:
        self.result = result

    async def run(
        self, spec: SandboxSpec, command: Command, on_output: OutputSink | None = None
    ) -> ExecResult:
        return self.result

    async def capabilities(self) -> Capabilities:
        return Capabilities("giving", {}, ())

    async def aclose(self) -> None:
        pass


async def checked(client: Client, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    (tool,) = [tool for tool in (await client.list_tools()).tools if tool.name == name]
    result = await client.call_tool(name, arguments)
    assert tool.output_schema is not None
    assert isinstance(result.structured_content, dict)
    jsonschema.validate(
        result.structured_content, tool.output_schema, jsonschema.Draft202012Validator
    )
    assert result.meta is not None
    assert {"sandboxed-tools/placement", "sandboxed-tools/reasons", "sandboxed-tools/call-id"} <= (
        set(result.meta)
    )
    return result.structured_content


@pytest.mark.parametrize("name", RESULTS)
async def test_a_command_s_result_fits(name: str, tmp_path: Path) -> None:
    result = RESULTS[name]
    served = ServerOptions(sandbox=Giving(result), workspaces=(tmp_path,))
    async with (
        Sessions(served) as sessions,
        Client(build_server(sessions), mode="legacy") as client,
    ):
        found = await checked(client, "Bash", {"command": "touch x"})
        assert found["status"] == result.status
        assert found["exit_code"] == result.exit_code


async def test_the_result_of_any_other_tool_fits(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "a.png").write_bytes(png())
    served = ServerOptions(sandbox=Coding(a=png()), workspaces=(tmp_path,), policy=ALLOW)
    async with (
        Sessions(served) as sessions,
        Client(build_server(sessions), mode="legacy") as client,
    ):
        for name, arguments in (
            ("Glob", {"pattern": "*"}),
            ("Grep", {"pattern": "a"}),
            ("Read", {"file_path": str(tmp_path / "a.txt")}),
            ("Read", {"file_path": str(tmp_path / "a.png")}),
            ("ExecuteCode", {"code": "1"}),
        ):
            assert (await checked(client, name, arguments))["text"]


class Nothing(ToolInput):
    pass


def _raises(tool_input: Nothing) -> bool:
    raise ValueError


async def test_the_hints_of_a_user_s_tools_are_all_there_at_their_worst() -> None:
    def tool(name: str, **flags: Any) -> AnyTool:
        return build_tool(
            name=name, description="x", input_schema=Nothing, call=lambda i, c: "x", **flags
        )

    tools = (
        *SHIPPED,
        tool("Silent"),
        tool("Reader", is_read_only=True, is_open_world=False),
        tool("Depends", is_read_only=lambda tool_input: True),
        tool("Raises", is_read_only=_raises, is_destructive=_raises, is_idempotent=_raises),
    )
    async with (
        Sessions(ServerOptions(sandbox=Coding(), tools=tools)) as sessions,
        Client(build_server(sessions), mode="legacy") as client,
    ):
        listed = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
    assert set(listed) == {tool.name for tool in tools}
    for hints in listed.values():
        assert hints is not None
        values = (
            hints.read_only_hint,
            hints.destructive_hint,
            hints.idempotent_hint,
            hints.open_world_hint,
        )
        assert None not in values
    for name in ("Silent", "Depends", "Raises"):
        hints = listed[name]
        assert hints is not None
        assert (hints.read_only_hint, hints.destructive_hint) == (False, True), name
    reader = listed["Reader"]
    assert reader is not None
    assert reader.read_only_hint
