"""The tools of one Toolbox: looked up by name, alias or object, each with its trust."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable
from dataclasses import dataclass

from sandboxed_tools.builtin import SHIPPED
from sandboxed_tools.errors import ConfigurationError, ToolFailed, ToolNotFound
from sandboxed_tools.policy import Policy
from sandboxed_tools.policy.faults import text_of
from sandboxed_tools.tool import AnyTool, Environment
from sandboxed_tools.tool.defaults import defaults_version

__all__ = ["Entry", "ToolRegistry"]

log = logging.getLogger("sandboxed_tools")


@dataclass(frozen=True, slots=True)
class Entry:
    """One tool as its author built it, as it is used here, and whether it is trusted."""

    original: AnyTool
    tool: AnyTool
    trusted: bool


class ToolRegistry:
    """Immutable after construction.

    Trust goes by object: the shipped tools have it, and whatever ``trusted`` names; a tool that
    merely has the name of a trusted one has none.

    Raises:
        ConfigurationError: two tools claim one name, or something trusted is not among the tools.
    """

    def __init__(
        self,
        tools: Iterable[AnyTool],
        *,
        trusted: Iterable[AnyTool],
        policy: Policy,
        environment: Environment,
    ) -> None:
        trusted_ids = {id(tool) for tool in trusted}
        listed = list(tools)
        if trusted_ids - {id(tool) for tool in listed}:
            raise ConfigurationError("trusted= names a tool that is not among the tools.")
        trusted_ids |= {id(tool) for tool in SHIPPED}
        self.entries = tuple(
            Entry(tool, _adapted(tool, policy, environment), id(tool) in trusted_ids)
            for tool in listed
        )
        self._by_name: dict[str, Entry] = {}
        for entry in self.entries:
            for name in (entry.tool.name, *entry.tool.aliases):
                if name in self._by_name:
                    raise ConfigurationError(f"Two tools claim the name {name}.")
                self._by_name[name] = entry
        self._by_id = {id(entry.original): entry for entry in self.entries}

    def find(self, wanted: AnyTool | str) -> Entry:
        """The entry of an enabled tool.

        Raises:
            ToolNotFound: nothing here has that name, or it is disabled.
        """
        if isinstance(wanted, str):
            entry, name = self._by_name.get(wanted), wanted
        else:
            entry, name = self._by_id.get(id(wanted)), wanted.name
        if entry is None or not entry.tool.is_enabled():
            raise ToolNotFound(self._not_found(name))
        return entry

    def enabled(self) -> tuple[AnyTool, ...]:
        """The tools that exist right now, as they are used here."""
        return tuple(entry.tool for entry in self.entries if entry.tool.is_enabled())

    async def setup(self) -> None:
        """Set every tool up, in order.

        Raises:
            ToolFailed: a tool's own code raised; those behind it are not set up.
        """
        for entry in self.entries:
            try:
                await entry.tool.setup()
            except (Exception, SystemExit) as error:
                raise ToolFailed(
                    f"{entry.tool.name} could not be set up: {type(error).__name__}.",
                    operator_detail=text_of(error),
                ) from error

    async def teardown(self) -> None:
        """Tear every tool down, in reverse; one that raises is logged and stops no other."""
        for entry in reversed(self.entries):
            try:
                await entry.tool.teardown()
            except (Exception, SystemExit):
                log.exception("%s could not be torn down", entry.tool.name)

    def _not_found(self, name: str) -> str:
        names = [tool.name for tool in self.enabled()]
        near = difflib.get_close_matches(name, names, n=1)
        hint = f" Did you mean {near[0]}?" if near else f" There are: {', '.join(names)}."
        return f"There is no tool {name[:64]!r}.{hint}"


def _adapted(tool: AnyTool, policy: Policy, environment: Environment) -> AnyTool:
    if tool.defaults.version < policy.minimum_defaults:
        tool = tool.with_defaults(defaults_version(policy.minimum_defaults))
    return tool.for_environment(environment)
