"""What the ``sandbox`` fixture is: commands in containers, and what came of them."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sandboxed_tools.builtin.bash import SANDBOX_ENV, bash_command
from sandboxed_tools.sandbox.contract import SandboxSpec, WorkspaceAccess, WorkspaceMount
from sandboxed_tools.testing.backend import Backend
from sandboxed_tools.testing.marked import MarkedOptions
from sandboxed_tools.testing.record import Record, held_or_applied
from sandboxed_tools.tool import Command, ExecResult, Limits
from sandboxed_tools.workspace import ChangeSet, ChangeStore, discard_set

__all__ = ["SandboxRunner", "discard_held"]


class SandboxRunner:
    """Runs commands for one test; every one of them in a container of its own.

    What a command changes in the workspace is held: the test's next command sees it, the folder
    on the host does not, and it is forgotten when the test is over. The marker's
    ``changes="apply"`` brings changes in, ``"discard"`` forgets them at once.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        options: MarkedOptions,
        workspace: Path | None,
        record: Record | None = None,
    ) -> None:
        self._backend = backend
        self._options = options
        self._workspace = workspace.resolve() if workspace is not None else None
        self._session = f"test-{secrets.token_hex(8)}"
        self._record = record or Record()
        self._results: list[ExecResult] = []

    @property
    def results(self) -> tuple[ExecResult, ...]:
        """What has been run in this test, oldest first."""
        return tuple(self._results)

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
        self._results.append(result)
        text = command if isinstance(command, str) else " ".join(command)
        self._record.add(text, result)
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
        return held_or_applied(result)

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
