"""What the operator allows: mode, placement, ceilings. One frozen value for a call."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from sandboxed_tools.tool import Limits

__all__ = ["Mode", "Policy"]

Mode = Literal["read-only", "ask", "auto", "accept-edits", "deny-all"]


class Policy(BaseModel):
    """The operator's policy.

    Attributes:
        mode: ``read-only`` denies what is not read-only; ``ask`` asks a question for it; ``auto``
            asks unless the whole effect is contained; ``accept-edits`` is ``auto`` and applies
            changes to the workspace; ``deny-all`` denies everything.
        sandbox: ``always`` sends every call to a container; ``auto`` lets trusted and proven
            read-only ones stay on the host.
        minimum_defaults: the lowest version of the defaults that tools are used with.
        ceiling: no call may use more than this.
        untrusted: names of tools that lose their trust here; trust is never given by name.
        trusted_workspace: whether the workspace's own repository configuration is trusted, which
            lets read-only git commands run on the host.
        read_roots: folders outside the workspace that host calls may read.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Mode = "auto"
    sandbox: Literal["auto", "always"] = "auto"
    minimum_defaults: Literal[1, 2] = 1
    ceiling: Limits | None = None
    untrusted: frozenset[str] = frozenset()
    trusted_workspace: bool = False
    read_roots: tuple[str, ...] = ()
