"""An executable form of the sandbox contract: any backend can be put through it."""

from sandboxed_tools.testing.conformance.bench import Bench, CheckFailed
from sandboxed_tools.testing.conformance.check import Check
from sandboxed_tools.testing.conformance.differences import Difference
from sandboxed_tools.testing.conformance.run import (
    ALL_CHECKS,
    CheckResult,
    Report,
    run_conformance,
)

__all__ = [
    "ALL_CHECKS",
    "Bench",
    "Check",
    "CheckFailed",
    "CheckResult",
    "Difference",
    "Report",
    "run_conformance",
]
