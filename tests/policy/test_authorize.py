"""Authorization: nobody to ask means no, and whatever goes wrong means no."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
import pytest

from sandboxed_tools.errors import PermissionDenied
from sandboxed_tools.policy import (
    ConfirmationRequest,
    Mode,
    Placement,
    Policy,
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
