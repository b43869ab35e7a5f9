"""May a call run, and where."""

from sandboxed_tools.policy.admission import AdmissionPolicy
from sandboxed_tools.policy.authorize import (
    Answer,
    ConfirmationRequest,
    Confirmer,
    authorize,
    decide,
)
from sandboxed_tools.policy.consent import Consents
from sandboxed_tools.policy.layers import LAYERS, Layer, MergedPolicy, Origin, merge_layers
from sandboxed_tools.policy.placement import Placement, decide_placement
from sandboxed_tools.policy.rules import Rule, RuleSet, RuleVerdict, Scope
from sandboxed_tools.policy.settings import Merge, Mode, Policy, merge_of
from sandboxed_tools.policy.sources import LayeredPolicy

__all__ = [
    "LAYERS",
    "AdmissionPolicy",
    "Answer",
    "ConfirmationRequest",
    "Confirmer",
    "Consents",
    "Layer",
    "LayeredPolicy",
    "Merge",
    "MergedPolicy",
    "Mode",
    "Origin",
    "Placement",
    "Policy",
    "Rule",
    "RuleSet",
    "RuleVerdict",
    "Scope",
    "authorize",
    "decide",
    "decide_placement",
    "merge_layers",
    "merge_of",
]
