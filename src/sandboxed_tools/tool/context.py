"""What a tool's work is given: the context of one call, and proof that the call is authorized."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal, Protocol, TypeVar

from sandboxed_tools.errors import NotAuthorized
from sandboxed_tools.tool.command import Command
from sandboxed_tools.tool.result import ExecResult

__all__ = ["Context", "Environment", "PermissionDecision", "Ticket", "issue_ticket", "redeem"]

ResourceT = TypeVar("ResourceT")
ProgressT = TypeVar("ProgressT", contravariant=True)


@dataclass(frozen=True, slots=True)
class Environment:
    """What a tool may know of where it is used, when it is put into a Toolbox.

    Nothing in it is trusted unless it says so: the default is a place with no workspace, no trust
    and no gate for host runs, where every command belongs in a container.
    """

    workspace: PurePath | None = None
    read_roots: tuple[PurePath, ...] = ()
    trusted_workspace: bool = False
    host_gate: bool = False
    extra_specs: Any = None


@dataclass(frozen=True, slots=True)
class PermissionDecision:
    """Whether a call may go ahead, and which rule of which layer said so."""

    behavior: Literal["allow", "deny", "ask"]
    message: str
    rule: str = ""
    layer: str = ""


class Context(Protocol[ProgressT]):
    """What the work of one call may use. Minted by a Toolbox for exactly one call."""

    @property
    def ticket(self) -> Ticket: ...

    @property
    def call_id(self) -> str: ...

    @property
    def cwd(self) -> PurePath | None:
        """The session's current directory, below the workspace; ``None`` without a workspace."""
        ...

    def resource(self, kind: type[ResourceT]) -> ResourceT:
        """Something that the Toolbox keeps for its tools, by type: the workspace root, a cache.

        Raises:
            NotAuthorized: this Toolbox has none of that kind.
        """
        ...

    def progress(self, value: ProgressT) -> None:
        """Report progress; never blocks."""
        ...

    def log(self, message: str) -> None:
        """A line for the operator's log."""
        ...

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout_s: float | None = None,
    ) -> ExecResult:
        """Run a program beside a Python function that executes in a container. Blocking.

        Raises:
            NotAuthorized: the call runs on the host, where nobody has judged the program.
            InvalidInput: the program cannot be executed.
        """
        ...

    async def execute(self, command: Command) -> ExecResult:
        """Run a command where this call is placed.

        Raises:
            SandboxUnavailable: the sandbox failed.
        """
        ...


@dataclass(eq=False, slots=True, weakref_slot=True)
class Ticket:
    """Proof that a Toolbox authorized one call: good for one tool, one input, one use."""

    _tool: object = field(repr=False)
    _input: object = field(repr=False)


_outstanding: set[Ticket] = set()
_lock = threading.Lock()


def issue_ticket(tool: object, tool_input: object) -> Ticket:
    """Issue a ticket for one call. Only the runtime and ``testing.call_directly`` do this."""
    ticket = Ticket(tool, tool_input)
    with _lock:
        _outstanding.add(ticket)
    return ticket


def revoke(ticket: Ticket) -> None:
    """Make a ticket worthless; does nothing when it is already."""
    with _lock:
        _outstanding.discard(ticket)


def _take(ticket: Ticket) -> bool:
    with _lock:
        known = ticket in _outstanding
        _outstanding.discard(ticket)
    return known


def redeem(context: object, *, tool: object, tool_input: object) -> None:
    """Use up the context's ticket.

    Raises:
        NotAuthorized: there is none, it is used, or it is for another tool or input.
    """
    ticket = getattr(context, "ticket", None)
    if not (
        isinstance(ticket, Ticket)
        and _take(ticket)
        and ticket._tool is tool
        and ticket._input is tool_input
    ):
        raise NotAuthorized(
            "This call was not authorized. Call the tool through a Toolbox: "
            "await box.call(tool, input); in a test, testing.call_directly(tool, input)."
        )
