"""The policy of one Toolbox while it is open: read anew for each call, with what people granted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.policy import LayeredPolicy, MergedPolicy, Policy, Rule
from sandboxed_tools.workspace import WorkspaceRoot

__all__ = ["LivePolicy"]

_FIXED: Final = ("read_roots", "denied_paths", "protected_paths")
"""Fields that the open workspace and its views rest on."""

_ADAPTING: Final = ("minimum_defaults", "trusted_workspace", "program_specs")
"""Fields that tools are adapted to when they enter a Toolbox."""


class LivePolicy:
    """Implements what a Toolbox asks of its policy.

    ``granted`` are the rules that a person answered ``always`` for; they are forgotten with this
    value. ``seen`` is the last reading.
    """

    def __init__(self, policy: Policy | LayeredPolicy | None) -> None:
        self._layers = policy if isinstance(policy, LayeredPolicy) else LayeredPolicy(policy)
        self.seen = MergedPolicy(Policy(), {})
        self.granted: tuple[Rule, ...] = ()
        self._is_open = False

    def open_root(self, path: Path, *, also_readable: tuple[str, ...]) -> WorkspaceRoot:
        """Open the workspace under the policy that its own project file takes part in. Blocking.

        Raises:
            InvalidWorkspace: the folder may not be used.
            ConfigurationError: a policy file cannot be used.
        """
        operators = self._layers.current().policy
        with WorkspaceRoot.open(path) as probe:
            denied = self._layers.in_workspace(probe).current().policy.denied_paths
        root = WorkspaceRoot.open(
            path, read_roots=(*operators.read_roots, *also_readable), denied=denied
        )
        self._layers = self._layers.in_workspace(root)
        return root

    def open(self) -> MergedPolicy:
        """What holds when the Toolbox opens; from now on some fields must stay as they are."""
        self.seen = self._layers.current()
        self._is_open = True
        return self.seen

    def now(self, adapt: Callable[[Policy], None]) -> MergedPolicy:
        """What holds now. ``adapt`` is called when tools have to be adapted to it.

        Raises:
            ConfigurationError: a policy file cannot be used, or what the open workspace rests on
                has changed; then nothing is called.
        """
        merged = self._layers.current()
        if merged is self.seen or not self._is_open:
            return merged
        old, new = self.seen.policy, merged.policy
        if any(getattr(old, name) != getattr(new, name) for name in _FIXED):
            raise ConfigurationError(
                "The policy's read roots, denied or protected paths changed while the workspace "
                "was open. Open the Toolbox again."
            )
        if any(getattr(old, name) != getattr(new, name) for name in _ADAPTING):
            adapt(new)
        self.seen = merged
        return merged

    def grant(self, rules: tuple[Rule, ...]) -> None:
        """Remember what a person always allows."""
        self.granted = tuple(dict.fromkeys((*self.granted, *rules)))
