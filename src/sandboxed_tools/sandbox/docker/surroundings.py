"""What a call is given: where its container comes from, what it shares, for whom it is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sandboxed_tools.sandbox.admission import Admission
from sandboxed_tools.sandbox.budget import Budgets
from sandboxed_tools.sandbox.docker.clients import Clients
from sandboxed_tools.sandbox.docker.container import Container
from sandboxed_tools.sandbox.docker.create import Mould
from sandboxed_tools.sandbox.docker.direct import Direct
from sandboxed_tools.sandbox.docker.disposal import Disposal
from sandboxed_tools.sandbox.docker.later import Later
from sandboxed_tools.sandbox.docker.quiet import Quiet

__all__ = ["Caller", "ContainerSource", "Surroundings"]


class ContainerSource(Protocol):
    """Where started containers come from: made for the call, or off a shelf."""

    def take(
        self, mould: Mould, *, direct: Direct | None, is_wanted: Callable[[], bool]
    ) -> Container: ...

    def called(self, mould: Mould, *, view_kind: str) -> None:
        """A call with this mould is over; another may follow."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every call of one sandbox shares."""

    clients: Clients
    disposal: Disposal
    quiet: Quiet
    later: Later
    admission: Admission
    budgets: Budgets
    heartbeat_s: float | None


@dataclass(frozen=True, slots=True)
class Caller:
    """For whom a call is made: calls take turns by ``key``, and higher ``priority`` goes first.

    ``account`` is whose budget it uses: the key's own when ``None``.
    """

    key: str = ""
    priority: int = 0
    account: str | None = None
