"""Reading records: calls for people, rows for export, chains for verification."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandboxed_tools.audit.chain import Head, Link, Verification, verify
from sandboxed_tools.audit.store import database_path, open_for_reading

__all__ = ["AuditReader", "CallRecord", "Row"]


@dataclass(frozen=True, slots=True)
class Row:
    """One row as it is stored. Every text in it is foreign text."""

    id: int
    chain: str
    number: int
    kind: str
    call_id: str
    body: str
    hash: str

    @property
    def facts(self) -> dict[str, Any]:
        """The body; empty where it is damaged."""
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call: the facts of its rows together. ``ended`` is false where no outcome was written."""

    call_id: str
    ended: bool
    facts: dict[str, Any] = field(default_factory=dict)


def _row(item: tuple[Any, ...]) -> Row:
    """SQLite holds any type in any column; what is not as we write it becomes text that differs."""
    number, place, digest = item[0], item[2], item[6]
    return Row(
        id=number if isinstance(number, int) else 0,
        chain=str(item[1]),
        number=place if isinstance(place, int) else 0,
        kind=str(item[3]),
        call_id=str(item[4]),
        body=str(item[5]),
        hash=digest.hex() if isinstance(digest, bytes) else "",
    )


class AuditReader:
    """Reads what is there; nothing is ever changed. ``folder`` stands for the state folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self._path = database_path(folder)

    @property
    def has_records_file(self) -> bool:
        """Whether anything was ever recorded here; in doubt, yes."""
        try:
            self._path.stat()
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True

    def rows(self) -> Iterator[Row]:
        """Every row in the order of its chain.

        Raises:
            AuditUnavailable: there are none, or they cannot be read.
        """
        with closing(open_for_reading(self._path)) as connection:
            for item in connection.execute(
                "SELECT id, chain, number, kind, call_id, body, hash FROM records "
                "ORDER BY chain, number"
            ):
                yield _row(item)

    def last_calls(self, count: int, *, tool: str | None = None) -> list[CallRecord]:
        """The newest calls, newest first; none where nothing was ever recorded.

        Raises:
            AuditUnavailable: there are records, and they cannot be read.
        """
        if not self.has_records_file:
            return []
        with closing(open_for_reading(self._path)) as connection:
            found: list[CallRecord] = []
            outcomes: dict[tuple[str, str], Row] = {}
            for item in connection.execute(
                "SELECT id, chain, number, kind, call_id, body, hash FROM records ORDER BY id DESC"
            ):
                row = _row(item)
                key = (row.chain, row.call_id)
                if row.kind == "outcome":
                    outcomes[key] = row
                    continue
                outcome = outcomes.pop(key, None)
                if tool is not None and row.facts.get("tool") != tool:
                    continue
                found.append(_call(row, outcome))
                if len(found) >= count:
                    break
            return found

    def verify(self, anchors: Iterable[Head] = ()) -> Verification:
        """Check every chain, and that it still reaches its anchors.

        Raises:
            AuditUnavailable: there are none, or they cannot be read.
        """
        return verify(map(_link, self.rows()), anchors=anchors)


def _call(start: Row, outcome: Row | None) -> CallRecord:
    facts = {"chain": start.chain, **start.facts}
    if outcome is not None:
        later = outcome.facts
        facts["ended_at"] = later.pop("at", None)
        facts |= later
    return CallRecord(start.call_id, start.kind == "refused" or outcome is not None, facts)


def _link(row: Row) -> Link:
    stored = bytes.fromhex(row.hash)
    return Link(row.chain, row.number, row.kind, row.call_id, row.body, stored)
