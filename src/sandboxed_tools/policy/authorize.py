"""May this call run: the tool's own checks, the mode, and the person who confirms."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio

from sandboxed_tools.errors import PermissionDenied
from sandboxed_tools.policy.placement import Placement
from sandboxed_tools.policy.settings import Policy
from sandboxed_tools.tool import AnyTool, Flags, PermissionDecision, ToolInput

__all__ = ["CONFIRM_TIMEOUT_S", "ConfirmationRequest", "Confirmer", "authorize", "decide"]

CONFIRM_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class ConfirmationRequest:
    """What a person is asked. ``use`` is foreign text: show it through ``for_terminal``."""

    tool: str
    use: str
    reason: str
    placement: Placement


Confirmer = Callable[[ConfirmationRequest], Awaitable[bool]]
"""Asks a person; only ``True`` itself means yes."""


def decide(
    tool: AnyTool,
    tool_input: ToolInput,
    flags: Flags,
    placement: Placement,
    policy: Policy,
    *,
    effect_contained: bool,
) -> PermissionDecision:
    """What the policy says of this call, before anybody is asked. Never raises.

    ``effect_contained``: a container, no network, and changes that are held or discarded.
    A tool's own ``check_permissions`` can only tighten; one that raises denies.
    """
    by_mode = _by_mode(flags, policy, effect_contained=effect_contained)
    own = _own_opinion(tool, tool_input)
    strictness = {"allow": 0, "ask": 1, "deny": 2}
    return max(by_mode, own, key=lambda decision: strictness[decision.behavior])


def _by_mode(flags: Flags, policy: Policy, *, effect_contained: bool) -> PermissionDecision:
    mode = policy.mode

    def answer(behavior: Any, message: str) -> PermissionDecision:
        return PermissionDecision(behavior, message, rule=f"mode {mode}", layer="mode")

    if mode == "deny-all":
        return answer("deny", "the mode denies every call")
    if mode == "read-only" and not flags.is_read_only:
        return answer("deny", "the mode allows only calls that are proven read-only")
    if flags.confirmation_stated and flags.requires_confirmation:
        return answer("ask", "the tool asks for confirmation of this use")
    if flags.is_read_only:
        return answer("allow", "the call is read-only")
    if mode in ("auto", "accept-edits") and effect_contained:
        return answer("allow", "the whole effect is contained")
    return answer("ask", "the call is not read-only, and its effect is not contained")


def _own_opinion(tool: AnyTool, tool_input: ToolInput) -> PermissionDecision:
    try:
        own = tool.check_permissions(tool_input)
    except Exception as error:  # noqa: BLE001  (an author's code: whatever it raises denies)
        return PermissionDecision("deny", f"its own check raised {type(error).__name__}", "check")
    if own is None:
        return PermissionDecision("allow", "the tool has no objection", "check", "tool")
    if isinstance(own, PermissionDecision) and own.behavior in ("allow", "ask", "deny"):
        return own
    return PermissionDecision("deny", "its own check gave no decision", "check", "tool")


async def authorize(
    tool: AnyTool,
    tool_input: ToolInput,
    decision: PermissionDecision,
    placement: Placement,
    *,
    confirmer: Confirmer | None,
    timeout_s: float = CONFIRM_TIMEOUT_S,
) -> PermissionDecision:
    """Carry a decision out: return when the call may run.

    Raises:
        PermissionDenied: the decision is no; or it is a question and there is nobody to ask, the
            answer is not yes, asking fails, or takes longer than ``timeout_s`` seconds.
    """
    if decision.behavior == "allow":
        return decision
    if decision.behavior == "deny":
        raise PermissionDenied(f"{tool.name} was refused: {decision.message}.")
    if confirmer is None:
        raise PermissionDenied(
            f"{tool.name} was refused: {decision.message}, and there is nobody to ask."
        )
    request = ConfirmationRequest(
        tool.name, tool.render_use(tool_input), decision.message, placement
    )
    try:
        with anyio.fail_after(timeout_s):
            answer = await confirmer(request)
    except TimeoutError:
        raise PermissionDenied(f"{tool.name} was refused: nobody answered in time.") from None
    except Exception as error:
        raise PermissionDenied(
            f"{tool.name} was refused: the question could not be asked.",
            operator_detail=repr(error),
        ) from error
    if answer is not True:
        raise PermissionDenied(f"{tool.name} was refused by the person who was asked.")
    return PermissionDecision("allow", "a person agreed", rule="confirmed", layer="person")
