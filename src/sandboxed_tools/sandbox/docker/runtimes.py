"""Which runtimes the engine has: a name that it does not know is answered with those it does."""

from __future__ import annotations

from sandboxed_tools.errors import UnsupportedOnEngine
from sandboxed_tools.sandbox.docker.clients import Clients
from sandboxed_tools.sandbox.docker.faults import engine_faults

__all__ = ["Runtimes"]


class Runtimes:
    """Asked of the engine, again for each name that it did not have. Safe to share by threads."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._known: frozenset[str] = frozenset()

    def is_known(self, name: str) -> bool:
        """Whether the engine need not be asked."""
        return name in self._known or _is_shim(name)

    def check(self, name: str) -> None:
        """Return when the engine has such a runtime, or does not say which it has. Blocking.

        Raises:
            UnsupportedOnEngine: it has none; the message names those that it has.
            EngineFault, EngineForbidden: it could not be asked.
        """
        self._known = self._ask()
        if self._known and not self.is_known(name):
            has = ", ".join(sorted(each for each in self._known if not _is_shim(each)))
            raise UnsupportedOnEngine(
                f"the container engine has no runtime {name!r}; it has {has or 'none with a name'}"
            )

    def _ask(self) -> frozenset[str]:
        with self._clients.lend() as api, engine_faults("asking which runtimes there are"):
            listed = api.info().get("Runtimes")
        return frozenset(map(str, listed)) if isinstance(listed, dict) else frozenset()


def _is_shim(name: str) -> bool:
    """Whether this is a shim of containerd's, which Docker starts without knowing it before."""
    return "." in name or "/" in name
