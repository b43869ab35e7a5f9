"""May this call run: rules, the tool's own checks, the mode, and the person who confirms."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal

import anyio

from sandboxed_tools.errors import PermissionDenied
from sandboxed_tools.policy.faults import text_of
from sandboxed_tools.policy.placement import Placement
from sandboxed_tools.policy.rules import Rule, RuleVerdict, Scope, suggested_rules
from sandboxed_tools.policy.settings import Policy
from sandboxed_tools.policy.workspace_edits import edits_only_the_workspace
from sandboxed_tools.tool import AnyTool, Flags, PermissionDecision, ToolInput

__all__ = [
    "CONFIRM_TIMEOUT_S",
    "Answer",
    "ConfirmationRequest",
    "Confirmer",
    "authorize",
    "decide",
]

CONFIRM_TIMEOUT_S = 300.0

Answer = Literal["once", "always", "no"]
"""What a person may say; ``always`` allows what the suggested rules match from now on."""

_SPEAKS_FOR_A_PERSON: Final = ("organisation", "user", "person")
_STRICTNESS: Final = {"allow": 0, "ask": 1, "deny": 2}


@dataclass(frozen=True, slots=True)
class ConfirmationRequest:
    """What a person is asked. ``use`` is foreign text: show it through ``for_terminal``.

    ``suggested`` are the rules that the answer ``always`` would add; empty where no rule can spell
    this call, and then ``always`` means once. ``asked_by`` is the rule that wants the
    question asked, such as ``Bash(rm:*)`` or ``mode auto``.
    """

    tool: str
    use: str
    reason: str
    placement: Placement
    suggested: tuple[Rule, ...] = ()
    asked_by: str = ""


Confirmer = Callable[[ConfirmationRequest], Awaitable[bool | Answer]]
"""Asks a person; only ``True`` itself, ``"once"`` and ``"always"`` mean yes."""


def decide(
    tool: AnyTool,
    tool_input: ToolInput,
    flags: Flags,
    placement: Placement,
    policy: Policy,
    *,
    effect_contained: bool,
    scope: Scope = Scope(),  # noqa: B008  (frozen)
) -> PermissionDecision:
    """What the policy says of this call, before anybody is asked. Never raises.

    The strictest of the permission rules, the mode and the tool's own ``check_permissions`` (one
    that raises denies). An allow rule answers the question of the mode; one of the user's or the
    organisation's also answers the confirmation that an author stated. It answers nothing else.

    ``effect_contained``: a container, no network, and changes that are held or discarded. In the
    mode ``accept-edits``, edits of ordinary files in the workspace count as such.
    """
    found = policy.rules.verdict(tool, tool_input, scope)
    if policy.mode == "accept-edits" and not effect_contained:
        effect_contained = edits_only_the_workspace(
            tool, tool_input, flags, placement, policy, scope
        )
    by_mode = _by_mode(flags, policy, effect_contained=effect_contained)
    opinions = [by_mode, _own_opinion(tool, tool_input)]
    if found is not None:
        by_rule = PermissionDecision(found.behavior, found.message, found.rule, found.layer)
        if found.behavior != "allow":
            opinions.insert(0, by_rule)
        elif by_mode.behavior != "deny" and _answers(found, flags):
            opinions[0] = by_rule
    return max(opinions, key=_strictness)


def _strictness(decision: PermissionDecision) -> int:
    return _STRICTNESS[decision.behavior]


def _answers(found: RuleVerdict, flags: Flags) -> bool:
    is_stated = flags.confirmation_stated and flags.requires_confirmation
    return not is_stated or found.rests_on(_SPEAKS_FOR_A_PERSON)


def _by_mode(flags: Flags, policy: Policy, *, effect_contained: bool) -> PermissionDecision:
    mode = policy.mode

    def answer(behavior: Literal["allow", "ask", "deny"], message: str) -> PermissionDecision:
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
        return answer("allow", "the whole effect is contained, or an edit that the mode accepts")
    return answer("ask", "the call is not read-only, and its effect is not contained")


def _own_opinion(tool: AnyTool, tool_input: ToolInput) -> PermissionDecision:
    try:
        own = tool.check_permissions(tool_input)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (an author's code: whatever it raises denies)
        return PermissionDecision(
            "deny", f"its own check raised {type(error).__name__}", "check", "tool"
        )
    if own is None:
        return PermissionDecision("allow", "the tool has no objection", "check", "tool")
    if isinstance(own, PermissionDecision) and own.behavior in ("allow", "ask", "deny"):
        # Which layer speaks is not for the tool to say.
        return PermissionDecision(own.behavior, str(own.message), own.rule or "check", "tool")
    return PermissionDecision("deny", "its own check gave no decision", "check", "tool")


async def authorize(
    tool: AnyTool,
    tool_input: ToolInput,
    decision: PermissionDecision,
    placement: Placement,
    *,
    confirmer: Confirmer | None,
    scope: Scope = Scope(),  # noqa: B008  (frozen)
    remember: Callable[[tuple[Rule, ...]], None] | None = None,
    timeout_s: float = CONFIRM_TIMEOUT_S,
) -> PermissionDecision:
    """Carry a decision out: return when the call may run.

    ``remember`` is given the suggested rules when the answer is ``always``.

    Raises:
        PermissionDenied: the decision is no; or it is a question and there is nobody to ask, the
            answer is not yes, asking fails, or takes longer than ``timeout_s`` seconds.
    """
    if decision.behavior == "allow":
        return decision
    if decision.behavior == "deny":
        raise PermissionDenied(
            f"{tool.name} was refused: {decision.message}.", operator_detail=_origin(decision)
        )
    if confirmer is None:
        raise PermissionDenied(
            f"{tool.name} was refused: {decision.message}, and there is nobody to ask.",
            operator_detail=_origin(decision),
        )
    suggested = suggested_rules(tool, tool_input, scope)
    use = _shown_use(tool, tool_input)
    try:
        with anyio.fail_after(timeout_s):
            answer = await confirmer(
                ConfirmationRequest(
                    tool.name,
                    use,
                    decision.message,
                    placement,
                    suggested,
                    decision.rule,
                )
            )
    except TimeoutError:
        raise PermissionDenied(f"{tool.name} was refused: nobody answered in time.") from None
    except Exception as error:
        raise _unasked(tool, error) from error
    if answer is not True and not (isinstance(answer, str) and answer in ("once", "always")):
        raise PermissionDenied(f"{tool.name} was refused by the person who was asked.")
    if answer == "always" and suggested and remember is not None:
        remember(tuple(rule.of_layer("person") for rule in suggested))
    return PermissionDecision("allow", "a person agreed", rule="confirmed", layer="person")


def _shown_use(tool: AnyTool, tool_input: ToolInput) -> str:
    try:
        return tool.render_use(tool_input)
    except (Exception, SystemExit) as error:
        raise _unasked(tool, error) from error


def _unasked(tool: AnyTool, error: BaseException) -> PermissionDenied:
    return PermissionDenied(
        f"{tool.name} was refused: the question could not be asked.", operator_detail=text_of(error)
    )


def _origin(decision: PermissionDecision) -> str | None:
    if not decision.rule:
        return None
    return f"by {decision.rule}" + (f" of {decision.layer}" if decision.layer else "")
