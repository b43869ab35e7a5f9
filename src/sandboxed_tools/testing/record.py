"""What the sandboxed commands of one test came to, kept for the report of a test that fails."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, field

from sandboxed_tools.errors import SandboxedToolsError
from sandboxed_tools.sandbox.contract import Capabilities, OutputSink, Sandbox, SandboxSpec
from sandboxed_tools.tool import Command, ExecResult, for_terminal
from sandboxed_tools.workspace import ChangeSet, ChangeStore, diff_set

__all__ = ["Record", "RecordedSandbox", "held_or_applied"]

SHOWN_CHARS = 20_000
MAX_SECTIONS = 20


@dataclass(slots=True)
class Record:
    """The last commands of one test with their results; a test may run thousands."""

    _ran: deque[tuple[int, str, ExecResult]] = field(
        default_factory=lambda: deque(maxlen=MAX_SECTIONS)
    )
    _count: int = 0

    def add(self, command: str, result: ExecResult) -> None:
        """Keep what a command came to, in place of the oldest one where there are many."""
        self._count += 1
        self._ran.append((self._count, command, result))

    def sections(self) -> list[tuple[str, str]]:
        """One section of a report for each command, made harmless for a terminal.

        A test has up to three reports: what one of them has shown is not in the next.
        """
        ran = tuple(self._ran)
        self._ran.clear()
        return [
            (f"sandbox {number}: {_line(command)}", _section(result))
            for number, command, result in ran
        ]


@dataclass(frozen=True, slots=True)
class RecordedSandbox:
    """Implements ``Sandbox`` over another one, which it leaves open; keeps what every run was."""

    sandbox: Sandbox
    record: Record

    async def run(
        self, spec: SandboxSpec, command: Command, on_output: OutputSink | None = None
    ) -> ExecResult:
        """See :meth:`Sandbox.run`."""
        result = await self.sandbox.run(spec, command, on_output)
        self.record.add(_text(command), result)
        return result

    async def capabilities(self) -> Capabilities:
        return await self.sandbox.capabilities()

    async def aclose(self) -> None:
        """Does nothing: the sandbox is another's."""


def held_or_applied(result: ExecResult) -> ChangeSet | None:
    """The change set of a command, to look into; ``None`` when nothing was held or applied."""
    changes = result.changes
    if changes is None or changes.id is None:
        return None
    return ChangeStore().get(changes.id)


def _text(command: Command) -> str:
    """What a person would call the command: the text, where bash runs one."""
    if command.script is not None:
        return command.script.decode("utf-8", "replace")
    return command.argv[-1] if command.argv[0] == "bash" else " ".join(command.argv)


def _section(result: ExecResult) -> str:
    ended = f"{result.status}"
    if result.exit_code is not None:
        ended += f", exit code {result.exit_code}"
    if result.limits_hit:
        ended += f", limits hit: {', '.join(sorted(result.limits_hit))}"
    parts = [ended]
    for name, text in (("stdout", result.stdout_text), ("stderr", result.stderr_text)):
        if text:
            parts.append(f"--- {name} ---\n{_shortened(text)}")
    parts += _changes(result)
    return "\n".join(parts)


def _changes(result: ExecResult) -> list[str]:
    try:
        change_set = held_or_applied(result)
        if change_set is None:
            return []
        return [f"--- changes ({change_set.status}) ---\n{_shortened(_diff(change_set))}"]
    except (SandboxedToolsError, OSError) as error:
        # A test may have decided about them; its report is no place to fail.
        return [f"--- changes ---\nnot to be had any more: {_line(str(error))}"]


def _diff(change_set: ChangeSet) -> str:
    lines = []
    for item in diff_set(ChangeStore(), change_set):
        name = os.fsdecode(item.change.path)
        lines.append(f"{item.change.action} {name} {item.note}".rstrip())
        lines += [item.text] if item.text else []
    return "\n".join(lines)


def _line(command: str) -> str:
    first = for_terminal(command.strip().split("\n", 1)[0], one_line=True)
    return first if len(first) <= 70 else f"{first[:69]}…"


def _shortened(text: str) -> str:
    half = SHOWN_CHARS // 2
    if len(text) > SHOWN_CHARS:
        text = f"{text[:half]}\n… {len(text) - SHOWN_CHARS} characters left out …\n{text[-half:]}"
    return for_terminal(text).rstrip("\n")
