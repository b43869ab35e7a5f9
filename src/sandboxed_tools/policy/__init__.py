"""May a call run, and where."""

from sandboxed_tools.policy.authorize import (
    ConfirmationRequest,
    Confirmer,
    authorize,
    decide,
)
from sandboxed_tools.policy.placement import Placement, decide_placement
from sandboxed_tools.policy.settings import Mode, Policy

__all__ = [
    "ConfirmationRequest",
    "Confirmer",
    "Mode",
    "Placement",
    "Policy",
    "authorize",
    "decide",
    "decide_placement",
]
