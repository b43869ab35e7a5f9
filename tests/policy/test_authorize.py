"""Authorization: nobody to ask means no, and whatever goes wrong means no."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path, PurePath
from typing import Any, cast

import anyio
import pytest

from sandboxed_tools.errors import PermissionDenied
from sandboxed_tools.policy import (
    Answer,
    ConfirmationRequest,
    Mode,
    Placement,
    Policy,
    Rule,
    Scope,
    authorize,
    decide,
)
from sandboxed_tools.tool import AnyTool, PermissionDecision, Reason, ToolInput, build_tool


class Nothing(ToolInput):
    pass


PLACE = Placement("container", (Reason("x", "x"),))


def tool(**stated: Any) -> AnyTool:
    return build_tool(
        name="T", description="x", input_schema=Nothing, call=lambda _, ctx: None, **stated
    )


def behavior(made: AnyTool, mode: Mode, *, contained: bool = False) -> str:
    return decide(
        made,
        Nothing(),
        made.flags(Nothing()),
        PLACE,
        Policy(mode=mode),
        effect_contained=contained,
    ).behavior


@pytest.mark.parametrize(
    ("mode", "read_only", "contained", "expected"),
    [
        ("deny-all", True, True, "deny"),
        ("read-only", True, False, "allow"),
        ("read-only", False, True, "deny"),
        ("ask", True, False, "allow"),
        ("ask", False, True, "ask"),
        ("auto", True, False, "allow"),
        ("auto", False, True, "allow"),
        ("auto", False, False, "ask"),
        ("accept-edits", False, True, "allow"),
        ("accept-edits", False, False, "ask"),
    ],
)
def test_each_mode_says_what_it_promises(
    mode: Mode, read_only: bool, contained: bool, expected: str
) -> None:
    assert behavior(tool(is_read_only=read_only), mode, contained=contained) == expected


def test_a_stated_confirmation_always_asks_even_when_everything_is_contained() -> None:
    made = tool(is_read_only=True, requires_confirmation=True)
    assert behavior(made, "auto", contained=True) == "ask"


def test_a_tools_own_check_tightens_and_never_loosens() -> None:
    def says(answer: Any) -> Callable[[object], Any]:
        return lambda _: answer

    order = ["allow", "ask", "deny"]
    modes: tuple[Mode, ...] = ("deny-all", "read-only", "ask", "auto")
    for mode, own in itertools.product(modes, order):
        alone = behavior(tool(), mode)
        opinion = PermissionDecision(cast(Any, own), "because")
        assert behavior(tool(check_permissions=says(opinion)), mode) == max(
            alone, own, key=order.index
        )
    assert behavior(tool(check_permissions=says(True)), "auto", contained=True) == "deny"
    assert behavior(tool(check_permissions=says(1 / 2)), "auto", contained=True) == "deny"


def test_a_check_that_raises_denies() -> None:
    def broken(_: object) -> None:
        raise RuntimeError

    assert behavior(tool(check_permissions=broken), "auto", contained=True) == "deny"


async def ask(
    confirmer: Callable[[ConfirmationRequest], Awaitable[bool]] | None, *, timeout_s: float = 5
) -> PermissionDecision:
    decision = PermissionDecision("ask", "because")
    return await authorize(
        tool(), Nothing(), decision, PLACE, confirmer=confirmer, timeout_s=timeout_s
    )


async def test_a_yes_is_a_yes() -> None:
    async def yes(_: ConfirmationRequest) -> bool:
        return True

    assert (await ask(yes)).behavior == "allow"


async def test_nobody_a_no_a_maybe_an_exception_and_a_timeout_are_all_no() -> None:
    async def no(_: ConfirmationRequest) -> bool:
        return False

    async def maybe(_: ConfirmationRequest) -> Any:
        return "yes"

    async def broken(_: ConfirmationRequest) -> bool:
        raise OSError("the terminal is gone")

    async def forever(_: ConfirmationRequest) -> bool:
        await anyio.sleep_forever()
        return True

    for confirmer in (None, no, maybe, broken):
        with pytest.raises(PermissionDenied):
            await ask(confirmer)
    with pytest.raises(PermissionDenied, match="in time"):
        await ask(forever, timeout_s=0.05)


async def test_what_a_model_is_told_does_not_name_the_operators_rule() -> None:
    made = tool(is_read_only=True)
    policy = Policy(deny=(Rule.parse("T", layer="organisation"),))
    decision = decide(made, Nothing(), made.flags(Nothing()), PLACE, policy, effect_contained=True)
    assert (decision.rule, decision.layer) == ("T", "organisation")
    with pytest.raises(PermissionDenied) as caught:
        await authorize(made, Nothing(), decision, PLACE, confirmer=None)
    assert "organisation" not in caught.value.for_model
    assert "organisation" in str(caught.value.operator_detail)


@pytest.mark.parametrize(
    ("mode", "layer", "stated", "expected"),
    [
        ("auto", "session", False, "allow"),
        ("ask", "session", False, "allow"),
        ("read-only", "user", False, "deny"),
        ("deny-all", "organisation", False, "deny"),
        ("auto", "session", True, "ask"),
        ("auto", "project", True, "ask"),
        ("auto", "environment", True, "ask"),
        ("auto", "user", True, "allow"),
        ("auto", "organisation", True, "allow"),
        ("auto", "person", True, "allow"),
    ],
)
def test_an_allow_rule_answers_the_mode_and_a_persons_rule_also_the_author(
    mode: Mode, layer: str, stated: bool, expected: str
) -> None:
    made = tool(requires_confirmation=True) if stated else tool()
    policy = Policy(mode=mode, allow=(Rule.parse("T", layer=layer),))
    flags = made.flags(Nothing())
    decision = decide(made, Nothing(), flags, PLACE, policy, effect_contained=False)
    assert decision.behavior == expected


def test_an_allow_rule_does_not_answer_the_tools_own_check() -> None:
    made = tool(check_permissions=lambda _: PermissionDecision("ask", "this one is special"))
    policy = Policy(allow=(Rule.parse("T", layer="organisation"),))
    flags = made.flags(Nothing())
    assert decide(made, Nothing(), flags, PLACE, policy, effect_contained=True).behavior == "ask"


def test_a_tool_cannot_speak_for_another_layer() -> None:
    forged = PermissionDecision("deny", "no", rule="Bash", layer="organisation")
    made = tool(check_permissions=lambda _: forged)
    flags = made.flags(Nothing())
    found = decide(made, Nothing(), flags, PLACE, Policy(), effect_contained=True)
    assert (found.behavior, found.layer) == ("deny", "tool")


def test_a_strict_rule_beats_everything_that_would_allow() -> None:
    made = tool(is_read_only=True)
    flags = made.flags(Nothing())
    for behavior in ("ask", "deny"):
        policy = Policy.model_validate({behavior: ["T"], "allow": ["T"]})
        decision = decide(made, Nothing(), flags, PLACE, policy, effect_contained=True)
        assert (decision.behavior, decision.rule) == (behavior, "T")


class TextInput(ToolInput):
    text: str


async def test_always_is_remembered_as_the_narrowest_rule_and_once_is_not() -> None:
    made: AnyTool = build_tool(
        name="Bash",
        description="x",
        input_schema=TextInput,
        call=lambda _, ctx: None,
        permission_pattern=lambda tool_input: tool_input.text,
    )
    remembered: list[Rule] = []
    decision = PermissionDecision("ask", "because")

    async def answer(request: ConfirmationRequest) -> Answer:
        return "always" if request.suggested else "once"

    for text in ("make test && ls", "rm $x"):
        allowed = await authorize(
            made,
            TextInput(text=text),
            decision,
            PLACE,
            confirmer=answer,
            remember=remembered.extend,
        )
        assert allowed.behavior == "allow"
    assert [str(rule) for rule in remembered] == ["Bash(make test)", "Bash(ls)"]
    assert {rule.layer for rule in remembered} == {"person"}
    flags = made.flags(TextInput(text="ls"))
    policy = Policy(mode="ask").with_allowed(tuple(remembered))
    for text, expected in (("ls; make test", "allow"), ("ls; make tests", "ask")):
        found = decide(made, TextInput(text=text), flags, PLACE, policy, effect_contained=False)
        assert found.behavior == expected


async def test_a_tool_that_cannot_be_shown_is_not_confirmed() -> None:
    async def yes(_: ConfirmationRequest) -> bool:
        return True

    made = tool(render_use=lambda _: 1 / 0)
    with pytest.raises(PermissionDenied, match="could not be asked"):
        await authorize(made, Nothing(), PermissionDecision("ask", "x"), PLACE, confirmer=yes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("src/a.py", "allow"),
        ("/workspace/src/new.py", "allow"),
        ("src/link", "ask"),
        ("../x", "ask"),
        ("/etc/passwd", "ask"),
        (".git/hooks/pre-commit", "ask"),
        (".git/config", "ask"),
        (".envrc", "ask"),
        ("sub/.VSCODE/tasks.json", "ask"),
        ("sandboxed-tools.toml", "ask"),
        ("secret/key", "ask"),
        ("src/config/settings.py", "allow"),
        ("src/HEAD", "allow"),
        ("bare/HEAD", "ask"),
        ("tools/bin/x", "ask"),
    ],
)
def test_accept_edits_accepts_ordinary_files_of_the_workspace_and_nothing_else(
    tmp_path: Path, text: str, expected: str
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "link").symlink_to("/etc/passwd")
    (tmp_path / "bare" / "objects").mkdir(parents=True)
    (tmp_path / "bare" / "refs").mkdir()

    def editor(**stated: Any) -> AnyTool:
        return build_tool(
            name="Edit",
            description="x",
            input_schema=TextInput,
            call=lambda _, ctx: None,
            is_open_world=False,
            **stated,
        )

    def outcome(made: AnyTool, mode: Mode, where: Any = "host") -> str:
        tool_input = TextInput(text=text)
        return decide(
            made,
            tool_input,
            made.flags(tool_input),
            Placement(where, (Reason("x", "x"),)),
            Policy(mode=mode, protected_paths=("secret",)),
            effect_contained=False,
            scope=Scope(tmp_path, tmp_path),
        ).behavior

    def paths(tool_input: TextInput) -> tuple[PurePath, ...]:
        return (PurePath(tool_input.text),)

    stated = editor(paths_written=paths)
    assert outcome(stated, "accept-edits") == expected
    assert outcome(stated, "auto") == "ask"
    assert outcome(stated, "accept-edits", "container") == "ask"
    assert outcome(editor(), "accept-edits") == "ask"
    assert outcome(editor(paths_written=lambda _: ()), "accept-edits") == "ask"
    assert outcome(editor(paths_written=lambda _: 1 / 0), "accept-edits") == "ask"
