"""What a policy requires of the sandbox, proved by its probes before the first contained call."""

from __future__ import annotations

from collections.abc import Collection

from sandboxed_tools.errors import UnsupportedOnEngine
from sandboxed_tools.sandbox.contract import Capability, Sandbox
from sandboxed_tools.tool import for_terminal

__all__ = ["Requirements"]

_OTHER_NAMES = {"pids": "processes", "cpus": "processor", "cpu": "processor", "files": "open files"}


class Requirements:
    """Probes a sandbox once, and refuses what it cannot enforce. Only what is proved counts."""

    def __init__(self) -> None:
        self._found: dict[str, Capability] | None = None

    async def check(
        self, sandbox: Sandbox, required: Collection[str], *, runtime: str | None
    ) -> None:
        """Refuse unless everything required is enforced.

        The names are those that ``doctor`` lists, hyphens for blanks: ``no-network``.

        Raises:
            UnsupportedOnEngine: names what is missing; nothing has been run.
        """
        if not required:
            return
        if runtime is not None:
            # The probes run in the engine's default runtime, and prove nothing about another.
            raise UnsupportedOnEngine(
                "The policy requires what is proved for the engine's default runtime alone: leave "
                "the runtime out, and make it the engine's default."
            )
        if self._found is None:
            probed = await sandbox.capabilities()
            self._found = {item.name.lower(): item for item in probed.items}
        lacking = [name for name in sorted(required) if not self._holds(name)]
        if lacking:
            told = ", ".join(self._told(name) for name in lacking)
            raise UnsupportedOnEngine(
                f"The policy requires what is not enforced here: {told}. See 'sandboxed-tools "
                "doctor'."
            )

    def _item(self, name: str) -> Capability | None:
        plain = name.lower().replace("-", " ")
        found = self._found or {}
        return found.get(name.lower()) or found.get(_OTHER_NAMES.get(plain, plain))

    def _holds(self, name: str) -> bool:
        item = self._item(name)
        return item is not None and item.state == "enforced"

    def _told(self, name: str) -> str:
        item = self._item(name)
        state = "nothing of this name is known" if item is None else item.state
        return f"{for_terminal(name[:60], one_line=True)} ({state})"
