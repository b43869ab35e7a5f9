"""A check: a stable id, the claim that it proves, and the proof."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from sandboxed_tools.testing.conformance.bench import Bench, ended, equal, require
from sandboxed_tools.tool.result import ExecResult, Limit, Status

__all__ = ["Check", "Expected", "Suite"]

Proof = Callable[[Bench], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Check:
    """One claim about a sandbox, and its proof.

    ``id`` is stable (``group.name``): a backend names it to declare a known difference. ``prove``
    raises :class:`CheckFailed` when the claim does not hold, and gets at most ``deadline_s``.
    ``alone`` keeps other checks away while it runs, because it loads the host.
    """

    id: str
    claim: str
    prove: Proof
    deadline_s: float = 60.0
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a Bash text must come to. ``None`` means that nothing is claimed about it."""

    status: Status = "exited"
    exit_code: int | None = None
    signal: int | None = None
    stdout: bytes | None = None
    stderr: bytes | None = None
    stdout_has: bytes = b""
    hit: frozenset[Limit] = frozenset()
    not_hit: frozenset[Limit] = frozenset()

    def compare(self, result: ExecResult) -> None:
        ended(result, self.status, exit_code=self.exit_code)
        if self.signal is not None:
            equal(result.signal, self.signal, "signal")
        if self.stdout is not None:
            equal(result.stdout, self.stdout, "stdout")
        if self.stderr is not None:
            equal(result.stderr, self.stderr, "stderr")
        require(
            self.stdout_has in result.stdout,
            f"stdout lacks {self.stdout_has!r}; it ends {result.stdout[-300:]!r}",
        )
        require(
            self.hit <= result.limits_hit,
            f"limits_hit is {sorted(result.limits_hit)}, expected {sorted(self.hit)} in it",
        )
        require(
            not self.not_hit & result.limits_hit,
            f"limits_hit is {sorted(result.limits_hit)}; {sorted(self.not_hit)} was not touched",
        )


@dataclass(frozen=True, slots=True)
class Suite:
    """Collects the checks of one group, written as functions or as rows of a table."""

    group: str
    checks: list[Check] = field(default_factory=list)

    def check(
        self, name: str, claim: str, *, deadline_s: float = 60.0, alone: bool = False
    ) -> Callable[[Proof], Proof]:
        """Register the decorated coroutine function as the proof of ``claim``."""

        def register(prove: Proof) -> Proof:
            self.checks.append(
                Check(f"{self.group}.{name}", claim, prove, deadline_s=deadline_s, alone=alone)
            )
            return prove

        return register

    def row(
        self,
        name: str,
        claim: str,
        text: str,
        expected: Expected,
        *,
        deadline_s: float = 60.0,
        alone: bool = False,
        **limits: object,
    ) -> None:
        """Register a Bash text and what it must come to under ``limits``."""

        async def prove(bench: Bench) -> None:
            expected.compare(await bench.bash(text, limits=limits))

        self.check(name, claim, deadline_s=deadline_s, alone=alone)(prove)
