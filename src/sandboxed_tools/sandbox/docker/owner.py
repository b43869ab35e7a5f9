"""Who made a container, a volume or a network, written into its labels.

Clean-up rests on these facts alone, so they must prove death, not suggest it. A process is named by
its machine, boot, namespaces, PID and start time (:mod:`sandboxed_tools.tool.process`). What cannot
be proved is *unknown*, and left alone until its deadline.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

from sandboxed_tools.tool.process import Life, ProcessName, process_life
from sandboxed_tools.tool.state import installation_id

__all__ = ["LABEL_PREFIX", "Kind", "Life", "Owner", "Ownership"]

LABEL_PREFIX = "sandboxed-tools."
SCHEMA = "1"

Kind = Literal["call", "warm", "probe", "helper", "view", "network", "test"]


@dataclass(frozen=True, slots=True)
class Owner:
    """One process of one installation, named so that no other process can be taken for it.

    ``machine`` is a keyed hash: machine-id(5) asks not to publish the id itself.
    """

    installation: str
    machine: str
    boot: str
    pid_namespace: str
    time_namespace: str
    pid: int
    started: str

    @classmethod
    def current(cls) -> Owner:
        """This process. Cheap, and right after a fork too.

        Raises:
            ConfigurationError: the state folder cannot be used.
        """
        process = ProcessName.current()
        return cls(
            installation=installation_id(),
            machine=process.machine,
            boot=process.boot,
            pid_namespace=process.pid_namespace,
            time_namespace=process.time_namespace,
            pid=int(process.pid),
            started=process.started,
        )

    def labels(self, *, deadline_s: float, kind: Kind) -> dict[str, str]:
        """Labels for something made now that must be gone ``deadline_s`` seconds from now."""
        now = time.time()
        facts = {item.name: str(getattr(self, item.name)) for item in fields(self)}
        facts |= {
            "schema": SCHEMA,
            "kind": kind,
            "created": str(int(now)),
            "deadline": str(int(now + deadline_s)),
        }
        return {LABEL_PREFIX + name: value for name, value in facts.items()}

    def life(self, *, seen_from: Owner) -> Life:
        """Whether this owner still lives, as far as the process ``seen_from`` can prove."""
        if self.installation != seen_from.installation or self.machine != seen_from.machine:
            return "unknown"
        if self.boot != seen_from.boot:
            return "dead" if "unknown" not in (self.boot, seen_from.boot) else "unknown"
        if "unknown" in (self.pid_namespace, self.time_namespace, self.started):
            return "unknown"
        if self.pid_namespace != seen_from.pid_namespace:
            return "unknown"
        if self.time_namespace != seen_from.time_namespace:
            return "unknown"
        return process_life(self.pid, self.started)


@dataclass(frozen=True, slots=True)
class Ownership:
    """What labels say about one object: its owner, its kind, and its times in Unix seconds."""

    owner: Owner
    kind: str
    created: int
    deadline: int

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Ownership | None:
        """Read labels back; ``None`` unless every one is there and well-formed.

        Labels may come from anybody who can talk to the engine, so nothing is guessed.
        """
        found = {
            name.removeprefix(LABEL_PREFIX): value
            for name, value in labels.items()
            if name.startswith(LABEL_PREFIX)
        }
        if found.get("schema") != SCHEMA:
            return None
        try:
            return cls(
                owner=Owner(
                    installation=_word(found["installation"]),
                    machine=_word(found["machine"]),
                    boot=_word(found["boot"]),
                    pid_namespace=_word(found["pid_namespace"]),
                    time_namespace=_word(found["time_namespace"]),
                    pid=_number(found["pid"]),
                    started=_word(found["started"]),
                ),
                kind=_word(found["kind"]),
                created=_number(found["created"]),
                deadline=_number(found["deadline"]),
            )
        except (KeyError, ValueError):
            return None


def _word(text: str) -> str:
    if not text or len(text) > 128 or not text.isascii() or not text.isprintable():
        raise ValueError("not a label of ours")
    return text


def _number(text: str) -> int:
    # int() also takes signs, blanks, underscores and other scripts' digits.
    if not (text.isascii() and text.isdecimal()) or not 0 < len(text) <= 15:
        raise ValueError("not a number of ours")
    return int(text)
