"""The abuse corpus: its rows, what each is expected to come to, and how to tell.

Rows are judged by rules over their fields, never by their id, so that further rows of the same
kinds need no further code; only the twins (a harmless act of the same kind, which must succeed) are
written down for each row.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandboxed_tools.tool import ExecResult

__all__ = ["PATIENCE", "ROWS", "Row", "Seen", "Twin", "faults"]

DATA = Path(__file__).parent.parent / "data" / "abuse.jsonl"
TWINS = Path(__file__).with_name("abuse_twins.json")
MIB = 1024 * 1024
# How many times longer everything may take: more than once on an emulated machine.
PATIENCE = float(os.environ.get("ABUSE_PATIENCE", "1"))

_TOOL_CALL = re.compile(r"@tool (\w+) (\{.*\})", re.DOTALL)
_PARAMETERS = {
    "Read": {"path": "file_path"},
    "Write": {"path": "file_path"},
    "Edit": {"path": "file_path", "old": "old_string", "new": "new_string"},
}
_HELD_BACK = re.compile(
    r"No space left|Resource temporarily unavailable|can't start new thread|Too many open files"
    r"|EMFILE|EAGAIN|ENOSPC|Cannot allocate|MemoryError|File size limit|[Ff]ile too large|Killed"
)


@dataclass(frozen=True, slots=True)
class Twin:
    """What proves that a refusal is one: ``twin`` is harmless and shows ``shows``.

    ``error`` is a pattern of the error that the row's output names; where the row hides its errors,
    ``ask`` is a command that does the same aloud. ``beside`` runs while the row runs, and ``after``
    once it has ended.
    """

    twin: Any = None
    shows: str = ""
    error: str = ""
    ask: str = ""
    beside: str = ""
    beside_shows: str = ""
    after: str = ""
    after_shows: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One hostile case."""

    id: str
    category: str
    command: str
    outcome: str
    note: str = ""
    output_lacks: tuple[str, ...] = ()
    output_has_any: tuple[str, ...] = ()
    rc: int | None = None
    max_seconds: float | None = None
    host: tuple[str, ...] = ()
    twin: Twin = field(default_factory=Twin)

    @property
    def tool_call(self) -> tuple[str, dict[str, Any]] | None:
        """The name and input of the host tool that the row calls; ``None`` for a Bash text."""
        match = _TOOL_CALL.fullmatch(self.command)
        if match is None:
            return None
        return match[1], self.translated(match[1], json.loads(match[2]))

    def translated(self, tool: str, raw: dict[str, Any]) -> dict[str, Any]:
        """The corpus's own parameter names and placeholders as the tool's."""
        names = _PARAMETERS.get(tool, {})
        call = {names.get(name, name): value for name, value in raw.items()}
        if match := re.fullmatch(r"<(\d+) MiB of text>", str(call.get("command", ""))):
            line = ": padding of a very long text ........\n"
            call["command"] = line * (int(match[1]) * MIB // len(line)) + "echo executed\n"
        return call

    @property
    def needs_applied_changes(self) -> bool:
        """Whether it is about what host tools do with what the command left in the workspace."""
        return self.category == "workspace" and self.outcome in ("refused", "truncated")

    @property
    def is_heavy(self) -> bool:
        """Whether it loads the whole machine, so that few of its kind may run at once."""
        return self.outcome in ("killed", "limited", "truncated") or any(
            "answers a new" in text for text in self.host
        )

    @property
    def wall_s(self) -> float:
        """A deadline that lets the row play out, and still leaves time to kill it."""
        if self.outcome == "killed":
            return 3.0 * PATIENCE
        return max(4.0, min(20.0, (self.max_seconds or 12.0) - 2.0)) * PATIENCE


@dataclass(frozen=True, slots=True)
class Seen:
    """What a row came to: its result, and how long its call took, waiting for a container aside."""

    result: ExecResult
    seconds: float

    @property
    def output(self) -> str:
        return self.result.stdout_text + self.result.stderr_text


def _load() -> Iterator[Row]:
    twins = json.loads(TWINS.read_text(encoding="utf-8"))
    for line in DATA.read_text(encoding="utf-8").split("\n"):
        if not line:
            continue
        raw = json.loads(line)
        expect = raw.pop("expect")
        for name in ("output_lacks", "output_has_any", "host"):
            expect[name] = tuple(expect.get(name, ()))
        yield Row(**raw, **expect, twin=Twin(**twins.get(raw["id"], {})))


def faults(row: Row, seen: Seen) -> Iterator[str]:
    """Everything in which a Bash row came to something else than expected."""
    result, output = seen.result, seen.output
    for text in row.output_lacks:
        if text in output:
            yield f"the output holds {text!r}"
    if row.output_has_any and not any(text in output for text in row.output_has_any):
        yield f"the output holds none of {row.output_has_any}"
    if row.rc is not None and (result.status, result.exit_code) != ("exited", row.rc):
        yield f"ended as {result.status} {result.exit_code}, expected exit code {row.rc}"
    if row.max_seconds is not None and seen.seconds > row.max_seconds * PATIENCE:
        yield f"took {seen.seconds:.1f} s, expected at most {row.max_seconds}"
    judge = _JUDGES.get(row.outcome)
    if judge is None:
        yield f"nobody knows how to judge the outcome {row.outcome!r}"
    elif fault := judge(row, result, output):
        yield fault


def _ended(_: Row, result: ExecResult, __: str) -> str | None:
    if result.status not in ("exited", "signalled"):
        return f"ended as {result.status}; it should have ended by itself"
    return None


def _limited(row: Row, result: ExecResult, output: str) -> str | None:
    if result.limits_hit - {"output_kept"} or _HELD_BACK.search(output):
        return None
    if row.output_has_any:
        return None
    return f"no limit held it: {result.status} {result.exit_code}"


def _killed(_: Row, result: ExecResult, __: str) -> str | None:
    return None if result.status == "timeout" else f"ended as {result.status}, not by the deadline"


def _truncated(_: Row, result: ExecResult, __: str) -> str | None:
    return None if result.truncated else "its output was not cut"


def _denied(row: Row, result: ExecResult, output: str) -> str | None:
    if fault := _ended(row, result, output):
        return fault
    if not row.twin.error:
        return "no twin is written for it"
    if not row.twin.ask and not re.search(row.twin.error, output):
        return f"the output names no error like {row.twin.error!r}"
    return None


def _ok(row: Row, result: ExecResult, output: str) -> str | None:
    if "memory" in result.limits_hit:
        return "it is reported as out of memory"
    return _ended(row, result, output)


def _contained(*_: object) -> None:
    """Nothing but what its fields say and that the host is as before."""


_JUDGES: Mapping[str, Callable[[Row, ExecResult, str], str | None]] = {
    "ok": _ok,
    "residual": _ended,
    "contained": _contained,
    "limited": _limited,
    "killed": _killed,
    "truncated": _truncated,
    "denied": _denied,
}

ROWS: tuple[Row, ...] = tuple(_load())
