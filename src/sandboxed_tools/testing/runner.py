"""What the ``sandbox`` fixture is: commands in containers, and what came of them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sandboxed_tools.builtin.bash import SANDBOX_ENV, bash_command
from sandboxed_tools.sandbox.contract import SandboxSpec, WorkspaceAccess, WorkspaceMount
from sandboxed_tools.testing.backend import Backend
from sandboxed_tools.testing.marked import MarkedOptions
from sandboxed_tools.tool import Command, ExecResult, Limits, for_terminal
from sandboxed_tools.workspace import ChangeSet, ChangeStore, diff_set, discard_set

__all__ = ["SandboxRunner", "discard_held"]

SHOWN_CHARS = 20_000


class SandboxRunner:
    """Runs commands for one test; every one of them in a container of its own.

    What a command changes in the workspace is held: the test's next command sees it, the folder
    on the host does not, and it is forgotten when the test is over. The marker's
    ``changes="apply"`` brings changes in, ``"discard"`` forgets them at once.
    """

    def __init__(self, backend: Backend, *, options: MarkedOptions, workspace: Path | None) -> None:
        self._backend = backend
        self._options = options
        self._workspace = workspace.resolve() if workspace is not None else None
        self._session = f"test-{secrets.token_hex(8)}"
        self._ran: list[tuple[str, ExecResult]] = []

    @property
    def results(self) -> tuple[ExecResult, ...]:
        """What has been run in this test, oldest first."""
        return tuple(result for _, result in self._ran)

    def run(
        self,
        command: str | Sequence[str],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        access: WorkspaceAccess = "copy_on_write",
        **limits: Any,
    ) -> ExecResult:
        """Run bash text, or a program and its arguments. A failing command is a result.

        ``env`` is added to the ordinary few variables; nothing of this process's environment gets
        in. ``limits`` are those of :class:`Limits`, over what the marker states.

        Raises:
            SandboxUnavailable: the sandbox itself failed.
            InvalidLimits: a limit that cannot be used.
        """
        made = bash_command(command) if isinstance(command, str) else Command(tuple(command))
        made = replace(made, stdin=stdin, env={**SANDBOX_ENV, **(env or {})}, cwd=cwd)
        spec = SandboxSpec(
            image=self._options.image or self._backend.image,
            limits=Limits.of(**{**self._options.limits.model_dump(), **limits}),
            workspace=self._mount(access),
            network=self._options.network,
            services=self._options.services,
            runtime=self._options.runtime,
        )
        result = self._backend.run(spec, made)
        self._ran.append((command if isinstance(command, str) else " ".join(command), result))
        return result

    def _mount(self, access: WorkspaceAccess) -> WorkspaceMount | None:
        if self._workspace is None:
            return None
        return WorkspaceMount(
            self._workspace,
            access=access,
            changes=self._options.changes,
            session=self._session if self._options.changes == "hold" else None,
        )

    def changed_by(self, result: ExecResult) -> ChangeSet | None:
        """The change set of a command, to look into; ``None`` when nothing was held or applied."""
        changes = result.changes
        if changes is None or changes.id is None:
            return None
        return ChangeStore().get(changes.id)

    def sections(self) -> list[tuple[str, str]]:
        """The commands of this test as sections of a report, made harmless for a terminal."""
        return [
            (f"sandbox {number}: {_line(command)}", self._section(result))
            for number, (command, result) in enumerate(self._ran, 1)
        ]

    def _section(self, result: ExecResult) -> str:
        ended = f"{result.status}"
        if result.exit_code is not None:
            ended += f", exit code {result.exit_code}"
        if result.limits_hit:
            ended += f", limits hit: {', '.join(sorted(result.limits_hit))}"
        parts = [ended]
        for name, text in (("stdout", result.stdout_text), ("stderr", result.stderr_text)):
            if text:
                parts.append(f"--- {name} ---\n{_shortened(text)}")
        if change_set := self.changed_by(result):
            parts.append(f"--- changes ({change_set.status}) ---\n{_shortened(_diff(change_set))}")
        return "\n".join(parts)

    def forget_changes(self) -> None:
        """Discard what is still held for this test."""
        if self._workspace is not None:
            discard_held(self._workspace, self._session)


def discard_held(workspace: Path, session: str) -> None:
    """Discard what is held for a session, newest first: each set rests on the older ones."""
    store = ChangeStore()
    held: Iterable[str] = [
        item.id for item in store.pending(workspace=workspace.resolve(), session=session)
    ]
    for change_set_id in reversed(list(held)):
        discard_set(store, change_set_id)
        store.remove(change_set_id)


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
