"""Who is asked before a call that is not contained: the person before the client, or nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from tests.mcp.serving import http_server
from tests.runtime.recording_sandbox import RecordingSandbox

from sandboxed_tools.mcp import ServerOptions, Sessions, build_server
from sandboxed_tools.mcp.confirm import Asking
from sandboxed_tools.policy import Policy

ERAS = ["legacy", "auto"]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


class Person:
    """Answers questions, and remembers them."""

    def __init__(self, *answers: types.ElicitResult) -> None:
        self.asked: list[types.ElicitRequestFormParams] = []
        self._answers = list(answers)

    async def __call__(self, ctx: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def says(answer: object) -> types.ElicitResult:
    return types.ElicitResult.model_construct(action="accept", content={"answer": answer})


@asynccontextmanager
async def connected(workspace: Path, era: str, person: Any, **options: Any) -> AsyncIterator[Any]:
    served = ServerOptions(
        workspaces=(workspace,), sandbox=RecordingSandbox(), **{"asks": True, **options}
    )
    async with Sessions(served) as sessions:
        client = Client(build_server(sessions), mode=era, elicitation_callback=person)
        async with client:
            yield client


def write(workspace: Path, name: str = "new.txt") -> dict[str, str]:
    return {"file_path": str(workspace / name), "content": "x\n"}


@pytest.mark.parametrize("era", ERAS)
async def test_a_write_on_the_host_asks_and_runs_after_a_yes(workspace: Path, era: str) -> None:
    person = Person(says("once"))
    async with connected(workspace, era, person) as client:
        result = await client.call_tool("Write", write(workspace))
        assert not result.is_error, result
        assert (workspace / "new.txt").read_text() == "x\n"
    (question,) = person.asked
    assert "new.txt" in question.message
    assert question.requested_schema["properties"]["answer"]["enum"][:2] == ["no", "once"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "answer",
    [
        types.ElicitResult(action="decline"),
        types.ElicitResult(action="cancel"),
        types.ElicitResult(action="accept"),
        types.ElicitResult(action="accept", content={}),
        types.ElicitResult(action="accept", content={"answer": "no"}),
        types.ElicitResult(action="accept", content={"answer": "yes"}),
        types.ElicitResult(action="accept", content={"answer": True}),
        types.ElicitResult(action="accept", content={"other": "once"}),
        types.ElicitResult(action="decline", content={"answer": "once"}),
    ],
)
async def test_anything_but_a_clear_yes_is_a_no(
    workspace: Path, era: str, answer: types.ElicitResult
) -> None:
    async with connected(workspace, era, Person(answer)) as client:
        result = await client.call_tool("Write", write(workspace))
        assert result.is_error
        assert result.meta["sandboxed-tools/error"]["code"] == "permission_denied"
    assert not (workspace / "new.txt").exists()


@pytest.mark.parametrize("era", ERAS)
async def test_a_contained_call_asks_nobody(workspace: Path, era: str) -> None:
    person = Person(types.ElicitResult(action="decline"))
    async with connected(workspace, era, person) as client:
        assert not (await client.call_tool("Bash", {"command": "rm -rf x"})).is_error
    assert person.asked == []


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("asks", [True, False])
async def test_a_client_that_cannot_ask_or_may_not_is_refused(
    workspace: Path, era: str, asks: bool
) -> None:
    person = None if asks else Person(says("once"))
    async with connected(workspace, era, person, asks=asks) as client:
        result = await client.call_tool("Write", write(workspace))
        assert result.is_error
        assert not (workspace / "new.txt").exists()
    assert person is None or person.asked == []


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("where", ["session", "workspace"])
async def test_a_policy_that_names_no_confirmer_lets_no_client_ask(
    workspace: Path, era: str, where: str
) -> None:
    person = Person(says("once"))
    options: dict[str, Any] = {}
    if where == "session":
        options["policy"] = Policy(confirm_by=frozenset())
    else:
        (workspace / "sandboxed-tools.toml").write_text("confirm_by = []\n")
    async with connected(workspace, era, person, **options) as client:
        result = await client.call_tool("Write", write(workspace))
        assert result.meta["sandboxed-tools/error"]["code"] == "permission_denied"
    assert person.asked == []
    assert not (workspace / "new.txt").exists()


async def test_a_confirmer_that_is_taken_away_while_the_server_runs_is_gone(
    workspace: Path,
) -> None:
    person = Person(says("once"))
    async with connected(workspace, "legacy", person) as client:
        assert not (await client.call_tool("Write", write(workspace))).is_error
        (workspace / "sandboxed-tools.toml").write_text("confirm_by = []\n")
        assert (await client.call_tool("Write", write(workspace, "other.txt"))).is_error
    assert len(person.asked) == 1
    assert not (workspace / "other.txt").exists()


async def test_the_workspace_s_own_file_cannot_have_a_client_ask(workspace: Path) -> None:
    person = Person(says("once"))
    (workspace / "sandboxed-tools.toml").write_text('confirm_by = ["elicitation"]\n')
    policy = Policy(confirm_by=frozenset())
    async with connected(workspace, "legacy", person, policy=policy) as client:
        assert (await client.call_tool("Write", write(workspace))).is_error
    assert person.asked == []


async def test_over_http_nobody_is_asked_whatever_the_options_and_the_policy_say(
    workspace: Path,
) -> None:
    person = Person(says("once"))
    served = ServerOptions(
        workspaces=(workspace,),
        sandbox=RecordingSandbox(),
        asks=True,
        policy=Policy(confirm_by=frozenset({"elicitation"})),
    )
    async with (
        http_server(served) as running,
        running.client(elicitation_callback=person, mode="legacy") as client,
    ):
        assert (await client.call_tool("Write", write(workspace))).is_error
    assert person.asked == []
    assert not (workspace / "new.txt").exists()


async def test_over_http_the_caller_never_answers_itself(workspace: Path) -> None:
    person = Person(says("once"))
    async with http_server(
        ServerOptions(workspaces=(workspace,), sandbox=RecordingSandbox())
    ) as running:
        async with running.client(elicitation_callback=person, mode="legacy") as client:
            result = await client.call_tool("Write", write(workspace))
            assert result.is_error
            assert result.meta is not None
            assert result.meta["sandboxed-tools/error"]["code"] == "permission_denied"
    assert person.asked == []
    assert not (workspace / "new.txt").exists()


@pytest.mark.parametrize("era", ERAS)
async def test_always_holds_for_this_client_and_what_the_rule_says(
    workspace: Path, era: str
) -> None:
    person = Person(says("always"), types.ElicitResult(action="decline"))
    async with connected(workspace, era, person, changes="apply") as client:
        first = await client.call_tool("Bash", {"command": "make test"})
        again = await client.call_tool("Bash", {"command": "make test"})
        other = await client.call_tool("Bash", {"command": "make install"})
    assert "always" in person.asked[0].message
    assert [first.is_error, again.is_error, other.is_error] == [False, False, True]
    assert len(person.asked) == 2


@pytest.mark.parametrize("era", ERAS)
async def test_a_question_cannot_steer_a_terminal(workspace: Path, era: str) -> None:
    person = Person(types.ElicitResult(action="decline"))
    async with connected(workspace, era, person, changes="apply") as client:
        await client.call_tool("Bash", {"command": "rm x \x1b[2K\u202e# harmless"})
    (question,) = person.asked
    assert "\x1b" not in question.message
    assert "\u202e" not in question.message


async def test_an_answer_counts_for_the_call_that_was_asked_about_once(workspace: Path) -> None:
    """Revision 2026-07-28: the client itself carries the answer back."""
    async with connected(workspace, "auto", Person(says("once"))) as client:
        asked = await client.session.call_tool("Write", write(workspace), allow_input_required=True)
        assert isinstance(asked, types.InputRequiredResult)
        answer = {"confirm": says("once")}

        async def retry(arguments: dict[str, str], state: str | None) -> Any:
            return await client.session.call_tool(
                "Write",
                arguments,
                input_responses=answer,
                request_state=state,
                allow_input_required=True,
            )

        state = asked.request_state
        assert state is not None
        for wrong in (None, "", "x", state[:-1] + "0", state.replace(".", ".1", 1), "a.b.c"):
            if wrong == state:
                continue
            refused = await retry(write(workspace), wrong)
            assert isinstance(refused, types.InputRequiredResult), wrong
        other = await retry(write(workspace, "other.txt"), state)
        assert isinstance(other, types.InputRequiredResult), "another call"
        assert list(workspace.iterdir()) == []

        assert not (await retry(write(workspace), state)).is_error
        assert (workspace / "new.txt").exists()
        again = await retry(write(workspace), state)
        assert isinstance(again, types.InputRequiredResult) or again.is_error, "only once"


def test_an_old_answer_does_not_count() -> None:
    params = types.CallToolRequestParams(name="Write", arguments={})
    asking = Asking(ctx=None, params=params)  # type: ignore[arg-type]
    old = asking.state(made_s=1_000_000)
    future = asking.state(made_s=99_999_999_999)
    for state in (old, future):
        params.request_state = state
        params.input_responses = {"confirm": says("once")}
        assert asking.given_answer() is None
    params.request_state = asking.state()
    assert asking.given_answer() is not None


def test_the_answers_that_mean_yes_are_few() -> None:
    from sandboxed_tools.mcp.confirm import _answer

    odd: Sequence[object] = (True, 1, "ONCE", "once ", ["once"], None, "yes", {"a": 1})
    assert {_answer(says(value)) for value in odd} == {"no"}
