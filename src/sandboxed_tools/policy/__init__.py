"""May a call run, and where."""

from sandboxed_tools.policy.authorize import (
    Answer,
    ConfirmationRequest,
    Confirmer,
    authorize,
    decide,
)
from sandboxed_tools.policy.placement import Placement, decide_placement
from sandboxed_tools.policy.rules import Rule, RuleSet, RuleVerdict, Scope
from sandboxed_tools.policy.settings import Mode, Policy

__all__ = [
    "Answer",
    "ConfirmationRequest",
    "Confirmer",
    "Mode",
    "Placement",
    "Policy",
    "Rule",
    "RuleSet",
    "RuleVerdict",
    "Scope",
    "authorize",
    "decide",
    "decide_placement",
]
