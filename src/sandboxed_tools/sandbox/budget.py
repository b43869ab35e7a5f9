"""Budgets: what one caller's key may use within a time, over all its calls."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field

from sandboxed_tools.errors import Overloaded

__all__ = ["Budget", "Budgets", "Spent"]


MANY_ACCOUNTS = 1024
"""From so many keys on, those that have used nothing lately are forgotten."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Most that a key may use within any ``per_s`` seconds; ``None`` is without a limit."""

    per_s: float = 3600.0
    calls: int | None = None
    container_s: float | None = None
    cpu_s: float | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """What one call used. Where no figure can be trusted, ``cpu_s`` is what its limits allowed."""

    container_s: float
    cpu_s: float


@dataclass(slots=True)
class _Account:
    entries: deque[tuple[float, Spent]] = field(default_factory=deque)
    container_s: float = 0.0
    cpu_s: float = 0.0
    open_calls: int = 0

    def forget_before(self, moment: float) -> None:
        while self.entries and self.entries[0][0] < moment:
            _, spent = self.entries.popleft()
            self.container_s -= spent.container_s
            self.cpu_s -= spent.cpu_s


class Budgets:
    """Accounts by key. Safe to share by threads.

    A call that runs counts as one call, and with its time when it ends: a budget can be overdrawn
    by what runs at that moment, and never by more.
    """

    def __init__(self, budget: Budget | None) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._accounts: dict[str, _Account] = {}

    def open_call(self, key: str) -> None:
        """Begin a call.

        Raises:
            Overloaded: the key has used up its budget; ``what`` says which.
        """
        if self._budget is None:
            return
        with self._lock:
            oldest = time.monotonic() - self._budget.per_s
            if len(self._accounts) >= MANY_ACCOUNTS:
                self._forget_idle(oldest)
            account = self._accounts.setdefault(key, _Account())
            account.forget_before(oldest)
            used = {
                "calls": (len(account.entries) + account.open_calls, self._budget.calls),
                "container seconds": (account.container_s, self._budget.container_s),
                "processor seconds": (account.cpu_s, self._budget.cpu_s),
            }
            for name, (amount, most) in used.items():
                if most is not None and amount >= most:
                    raise Overloaded(
                        f"the budget of {most:g} {name} within {self._budget.per_s:g} s is used "
                        "up: try later",
                        what=f"budget: {name}",
                    )
            account.open_calls += 1

    def _forget_idle(self, oldest: float) -> None:
        for key, account in list(self._accounts.items()):
            account.forget_before(oldest)
            if not account.entries and not account.open_calls:
                del self._accounts[key]

    def close_call(self, key: str, spent: Spent) -> None:
        """End a call that :meth:`open_call` let in."""
        if self._budget is None:
            return
        with self._lock:
            account = self._accounts[key]
            account.open_calls -= 1
            account.entries.append((time.monotonic(), spent))
            account.container_s += spent.container_s
            account.cpu_s += spent.cpu_s
