"""A session: a workspace, the changes that are held for it, and a current directory.

No variables persist: every command has an environment of its own. The directory is what a command
reported on its way out, hence data: it is read as text, and opened below the workspace, before it
is used.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
from pathlib import Path

from sandboxed_tools.errors import ConfigurationError, PathRefused, PendingChanges
from sandboxed_tools.workspace import (
    ChangeStore,
    Decision,
    EditJournal,
    SetState,
    WorkspaceRoot,
    apply_set,
    discard_set,
    recover,
    undo_set,
)

__all__ = ["Session"]

log = logging.getLogger("sandboxed_tools")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Session:
    """One session on one workspace. Two sessions never see each other's held changes.

    Raises:
        ConfigurationError: the name is not made of letters, digits, dots, lines and underscores.
    """

    def __init__(self, root: WorkspaceRoot, *, name: str | None = None) -> None:
        if name is not None and _NAME.fullmatch(name) is None:
            raise ConfigurationError(
                f"{name!r} is no session name: letters, digits, and . _ - after the first one."
            )
        self.name = name or secrets.token_hex(8)
        self._root = root
        self.journal = EditJournal(root.path, session=self.name)
        self._store = ChangeStore()
        self._cwd = root.path
        # A name may have held changes from another process; without one there are none before a
        # call of ours holds some, and a host call need not look.
        self._may_hold = name is not None

    @classmethod
    def open(cls, root: WorkspaceRoot, *, name: str | None) -> Session:
        """Open a session, after what dead processes left half applied is finished or taken back.

        Blocking. Raises ConfigurationError for a bad name or an unusable state folder.
        """
        for decision in recover(ChangeStore()):
            log.warning("the change set %s was recovered", decision.change_set.id)
        return cls(root, name=name)

    @property
    def workspace(self) -> Path:
        """The resolved path of the workspace."""
        return self._root.path

    @property
    def cwd(self) -> Path:
        """The current directory: the workspace or a folder below it."""
        return self._cwd

    @property
    def cwd_in_use(self) -> str | None:
        """What a command is to be given; ``None`` for the workspace itself, however it is seen."""
        return None if self._cwd == self._root.path else str(self._cwd)

    def held(self) -> tuple[SetState, ...]:
        """The held sets that the next call will see, oldest first. Blocking, and cheap for none."""
        if not self._may_hold:
            return ()
        found = self._store.pending(workspace=self._root.path, session=self.name)
        self._may_hold = bool(found)
        return found

    def refuse_while_held(self) -> None:
        """Refuse the workspace to a host tool that would show another tree than the container sees.

        Raises:
            PendingChanges: names the sets, and how to decide about them.
        """
        held = self.held()
        if held:
            names = ", ".join(item.id for item in held)
            raise PendingChanges(
                f"On the host the held changes {names} are not there yet. "
                f"Decide first: `sandboxed-tools changes apply {held[0].id}` or "
                f"`sandboxed-tools changes discard {held[-1].id}`."
            )

    def ended(self, *, cwd: str | None, holds: bool) -> None:
        """Take note of how a command ended. A directory that cannot be opened is not kept."""
        self._may_hold |= holds
        if cwd is None:
            return
        try:
            place = self._root.locate(cwd)
            if not place.is_writable:
                return
            if not self.held():
                _, descriptor = self._root.open_folder(cwd)
                os.close(descriptor)
        except PathRefused:
            return
        self._cwd = self._root.path / place.text

    def apply(
        self,
        change_set_id: str,
        *,
        force: bool = False,
        allow_protected: bool = False,
        protected: tuple[str, ...] = (),
    ) -> Decision:
        """Bring a held set into the workspace, all of it or nothing. Blocking."""
        return apply_set(
            self._store,
            change_set_id,
            force=force,
            allow_protected=allow_protected,
            protected=protected,
        )

    def discard(self, change_set_id: str) -> Decision:
        """Forget a set. Blocking."""
        return discard_set(self._store, change_set_id)

    def undo(self, change_set_id: str | None = None, *, force: bool = False) -> Decision | None:
        """Take an applied set back; the newest of this session when none is named. Blocking.

        ``None`` when there is nothing to undo.
        """
        if change_set_id is None:
            applied = [
                item
                for item in self._store.sets(workspace=self._root.path, session=self.name)
                if item.status == "applied"
            ]
            if not applied:
                return None
            change_set_id = max(applied, key=lambda item: item.decided_s or 0).id
        return undo_set(self._store, change_set_id, force=force)
