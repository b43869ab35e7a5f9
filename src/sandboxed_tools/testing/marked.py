"""What ``@pytest.mark.sandbox`` states about the sandboxed commands of a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from sandboxed_tools.errors import ConfigurationError
from sandboxed_tools.policy import Confirmer
from sandboxed_tools.sandbox.contract import ChangesMode, Network, SandboxSpec
from sandboxed_tools.tool import Limits

__all__ = ["MarkedOptions"]

_SHORT = {"memory": "memory_bytes", "timeout": "wall_s", "tmp": "tmp_bytes"}
_DEFAULTS = {"wall_s": 60.0}
_CHANGES = ("hold", "apply", "discard")


@dataclass(frozen=True, slots=True)
class MarkedOptions:
    """The options of one test's commands. Every limit may be named, ``memory`` for short."""

    limits: Limits = field(default_factory=lambda: Limits.of(**_DEFAULTS))
    network: Network = "none"
    services: tuple[tuple[str, str], ...] = ()
    changes: ChangesMode = "hold"
    image: str | None = None
    runtime: str | None = None

    @classmethod
    def of(cls, stated: Mapping[str, Any]) -> MarkedOptions:
        """Read a marker's keywords.

        Raises:
            pytest.UsageError: a keyword that is none, or a value that cannot be used.
        """
        rest = {_SHORT.get(name, name): value for name, value in stated.items()}
        own = {name: rest.pop(name) for name in _OWN if name in rest}
        if unknown := sorted(rest.keys() - Limits.model_fields.keys()):
            known = sorted({*_OWN, *_SHORT, *Limits.model_fields})
            raise pytest.UsageError(
                f"@pytest.mark.sandbox has no {', '.join(unknown)}; it has {', '.join(known)}"
            )
        if own.get("changes", "hold") not in _CHANGES:
            raise pytest.UsageError(f"changes is one of {', '.join(_CHANGES)}")
        if "services" in own:
            own["services"] = tuple(dict(own["services"]).items())
        try:
            made = cls(limits=Limits.of(**{**_DEFAULTS, **rest}), **own)
            made.spec_problem()
        except (ConfigurationError, TypeError) as error:
            raise pytest.UsageError(f"@pytest.mark.sandbox: {error}") from error
        return made

    def spec_problem(self) -> None:
        """Let the sandbox's own rules judge network and services.

        Raises:
            ConfigurationError: they cannot be used.
        """
        SandboxSpec("any", network=self.network, services=self.services)

    @property
    def confirmer(self) -> Confirmer | None:
        """Whoever wrote the marker has answered the question that its options raise."""
        if self.network == "none" and not self.services and self.changes != "apply":
            return None
        return cast(Confirmer, _yes)


async def _yes(_: object) -> bool:
    return True


_OWN = ("network", "services", "changes", "image", "runtime")
