"""The Toolbox under a policy of several layers, read anew for each call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.runtime.recording_sandbox import RecordingSandbox

from sandboxed_tools.builtin import Bash
from sandboxed_tools.errors import ConfigurationError, NotMovable, PermissionDenied
from sandboxed_tools.policy import Answer, ConfirmationRequest, LayeredPolicy, Policy
from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.tool import AnyTool, ToolInput, build_tool


class TextInput(ToolInput):
    text: str = ""


def python_tool(name: str = "Py", **stated: Any) -> AnyTool:
    options: dict[str, Any] = {
        "call": lambda tool_input, ctx: tool_input.text.upper(),
        "is_read_only": True,
        **stated,
    }
    return build_tool(name=name, description="x", input_schema=TextInput, **options)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


@pytest.fixture
def organisation(tmp_path: Path) -> Path:
    return tmp_path / "policy.toml"


def layered(organisation: Path, session: Policy | None = None) -> LayeredPolicy:
    return LayeredPolicy(session, organisation=organisation)


async def test_the_organisations_policy_binds_what_the_program_states(organisation: Path) -> None:
    organisation.write_text('deny = ["Py"]\n')
    tool = python_tool()
    policy = layered(organisation, Policy(allow=["Py"]))  # type: ignore[arg-type]
    async with Toolbox([tool], trusted=(tool,), policy=policy) as box:
        with pytest.raises(PermissionDenied) as caught:
            await box.call(tool, {})
        explained = box.explain(tool, {})
    assert "organisation" in str(caught.value.operator_detail)
    assert explained.decision.layer == "organisation"


async def test_a_change_of_the_policy_holds_from_the_next_call_on(organisation: Path) -> None:
    tool = python_tool()
    async with Toolbox([tool], trusted=(tool,), policy=layered(organisation)) as box:
        assert (await box.call(tool, {"text": "a"})).output == "A"
        organisation.write_text('mode = "deny-all"\n')
        with pytest.raises(PermissionDenied):
            await box.call(tool, {})
        organisation.write_text("mode = ")
        with pytest.raises(ConfigurationError):
            await box.call(tool, {})
        organisation.write_text('untrusted = ["Py"]\n')
        with pytest.raises(NotMovable):
            await box.call(tool, {})
        organisation.unlink()
        assert (await box.call(tool, {"text": "a"})).output == "A"


async def test_a_call_goes_on_under_the_policy_that_it_began_with(organisation: Path) -> None:
    def tighten(tool_input: TextInput, ctx: Any) -> str:
        organisation.write_text('mode = "deny-all"\n')
        return "done"

    tool = python_tool(call=tighten)
    async with Toolbox([tool], trusted=(tool,), policy=layered(organisation)) as box:
        assert (await box.call(tool, {})).output == "done"
        with pytest.raises(PermissionDenied):
            await box.call(tool, {})


async def test_a_policy_that_demands_newer_defaults_adapts_the_tools(organisation: Path) -> None:
    tool = python_tool(is_read_only=False)
    async with Toolbox([tool], trusted=(tool,), policy=layered(organisation)) as box:
        assert box.explain(tool, {}).placement.where == "host"
        organisation.write_text("minimum_defaults = 2\n")
        assert box.explain(tool, {}).placement.where == "container"


async def test_what_the_open_workspace_rests_on_must_not_change_under_it(
    organisation: Path, workspace: Path
) -> None:
    tool = python_tool()
    async with Toolbox(
        [tool], trusted=(tool,), workspace=workspace, policy=layered(organisation)
    ) as box:
        organisation.write_text('read_roots = ["/opt"]\n')
        with pytest.raises(ConfigurationError, match="Open the Toolbox again"):
            await box.call(tool, {})


async def test_the_projects_file_tightens_and_its_denied_paths_are_denied(
    organisation: Path, workspace: Path
) -> None:
    (workspace / ".env").write_text("SECRET=1")
    (workspace / "sandboxed-tools.toml").write_text('mode = "read-only"\ndenied_paths = [".env"]\n')
    from sandboxed_tools.workspace import WorkspaceRoot

    def read(tool_input: TextInput, ctx: Any) -> str:
        _, file = ctx.resource(WorkspaceRoot).open_file(tool_input.text)
        with file:
            return "opened"

    tool, writer = python_tool(call=read), python_tool("Writer", is_read_only=False)
    async with Toolbox(
        [tool, writer], trusted=(tool, writer), workspace=workspace, policy=layered(organisation)
    ) as box:
        with pytest.raises(PermissionDenied, match="read-only"):
            await box.call(writer, {})
        assert (await box.call(tool, {"text": "sandboxed-tools.toml"})).output == "opened"
        with pytest.raises(Exception, match="denied by the policy"):
            await box.call(tool, {"text": ".env"})


async def test_a_malformed_project_file_keeps_the_toolbox_shut(
    organisation: Path, workspace: Path
) -> None:
    (workspace / "sandboxed-tools.toml").write_text('network = "bridge"\n')
    with pytest.raises(ConfigurationError, match="network"):
        async with Toolbox([Bash], workspace=workspace, policy=layered(organisation)):
            pass


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ({"network": "none"}, {"network": "bridge"}),
        ({"images": ["theirs"]}, {}),
        ({"runtime": "runsc"}, {"runtime": "runc"}),
    ],
)
async def test_what_is_pinned_is_refused_before_anybody_is_asked(
    policy: dict[str, Any], options: dict[str, Any]
) -> None:
    async def never(_: ConfirmationRequest) -> bool:
        raise AssertionError("asked")

    sandbox = RecordingSandbox()
    async with Toolbox(
        [Bash],
        sandbox=sandbox,
        policy=Policy.model_validate(policy),
        confirmer=never,
        **options,
    ) as box:
        with pytest.raises(PermissionDenied, match="the policy"):
            await box.call("Bash", {"command": "rm x"})
    assert not sandbox.runs


async def test_a_pinned_runtime_is_used_where_none_was_chosen() -> None:
    sandbox = RecordingSandbox()
    async with Toolbox([Bash], sandbox=sandbox, policy=Policy(runtime="runsc")) as box:
        await box.call("Bash", {"command": "rm x"})
    assert sandbox.runs[0][0].runtime == "runsc"


async def test_always_answers_later_questions_of_this_toolbox_only() -> None:
    asked: list[str] = []

    async def answer(request: ConfirmationRequest) -> Answer:
        asked.append(request.use)
        return "always"

    options: dict[str, Any] = {"sandbox": RecordingSandbox(), "confirmer": answer}
    policy = Policy(mode="ask")
    async with Toolbox([Bash], policy=policy, **options) as box:
        for command in ("make test", "make test", "make tests"):
            await box.call("Bash", {"command": command})
    assert len(asked) == 2
    async with Toolbox([Bash], policy=policy, **options) as box:
        await box.call("Bash", {"command": "make test"})
    assert len(asked) == 3


async def test_an_operators_program_spec_reaches_the_verdict(workspace: Path) -> None:
    call = {"command": "mylister -l x"}
    async with Toolbox([Bash], workspace=workspace) as box:
        assert not box.explain("Bash", call).flags.is_read_only
    policy = Policy.model_validate({"program_specs": {"mylister": {"short": "l"}}})
    async with Toolbox([Bash], workspace=workspace, policy=policy) as box:
        assert box.explain("Bash", call).flags.is_read_only
        assert not box.explain("Bash", {"command": "mylister -x"}).flags.is_read_only
