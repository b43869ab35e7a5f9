"""Where change sets are kept until they are decided, and afterwards for undo.

``changes/ID/`` below the state folder holds ``set.json``, the small ``state.json`` that is replaced
with each decision, and ``upper/``, an overlay's upper folder. While a set is held, ``upper`` has
what the call made. When it has been applied, the same places have what was there before, so nothing
is copied or kept twice. A set appears whole or not at all, and survives restarts.
"""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from sandboxed_tools.errors import ChangeSetNotFound, Overloaded
from sandboxed_tools.tool.process import ProcessName
from sandboxed_tools.tool.state import state_dir
from sandboxed_tools.workspace.change import ChangeSet, SetState
from sandboxed_tools.workspace.remove import remove_tree
from sandboxed_tools.workspace.set_states import is_set_id, read_object, states_in
from sandboxed_tools.workspace.tree_usage import tree_usage
from sandboxed_tools.workspace.workspace_lock import workspace_lock

__all__ = ["ChangeStore", "sync_file_system"]

_DAY_S: Final = 24 * 3600.0
_libc = ctypes.CDLL(None, use_errno=True)


class ChangeStore:
    """The change sets of this installation. Stateless: safe to share by threads and processes."""

    def __init__(self) -> None:
        self.folder = state_dir() / "changes"
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._states = states_in(self.folder)

    @staticmethod
    def new_id() -> str:
        """An id that no other set has, as far as chance goes: 8 hexadecimal digits."""
        return secrets.token_hex(4)

    def upper(self, change_set_id: str) -> Path:
        """The folder with the set's content."""
        return self.folder / change_set_id / "upper"

    @contextmanager
    def empty_draft(self, change_set_id: str) -> Iterator[Path]:
        """A draft with an upper folder that is still empty; unless published, it goes away."""
        draft = self._new_draft(change_set_id)
        try:
            (draft / "upper").mkdir(mode=0o700)
            yield draft
        finally:
            if draft.exists():
                remove_tree(draft)

    def _new_draft(self, change_set_id: str) -> Path:
        draft = self.folder / f".{ProcessName.current()}-{change_set_id}"
        draft.mkdir(mode=0o700)
        return draft

    @contextmanager
    def draft(self, upper: Path, change_set_id: str) -> Iterator[Path]:
        """Take over ``upper`` for a set that is being made; unless published, it goes away."""
        draft = self._new_draft(change_set_id)
        try:
            os.rename(upper, draft / "upper")
            yield draft
        finally:
            if draft.exists():
                remove_tree(draft)

    def publish(self, draft: Path, change_set: ChangeSet) -> None:
        """Make a drafted set visible, in one step.

        Nothing is synced: a call must not wait for the whole disk. What a power cut may have left
        of the content is found out before it is applied, see ``ChangeSet.boot``.
        """
        _write(draft / "state.json", change_set.state.to_json(), sync=False)
        _write(draft / "set.json", change_set.to_json(), sync=False)
        os.rename(draft, self.folder / change_set.id)

    def save_state(self, change_set: ChangeSet, *, sync: bool) -> None:
        """Record a decision, whole or not at all; ``sync`` has it reach the disk as well."""
        _write(self.folder / change_set.id / "state.json", change_set.state.to_json(), sync=sync)

    def save_changes(self, change_set: ChangeSet) -> None:
        """Replace the changes of a set, whole or not at all."""
        _write(self.folder / change_set.id / "set.json", change_set.to_json(), sync=True)

    def get(self, change_set_id: str) -> ChangeSet:
        """One set.

        Raises:
            ChangeSetNotFound: there is none of this id, or no more: others were made of it.
        """
        if not is_set_id(change_set_id):
            raise ChangeSetNotFound("There is no change set of this id.")
        states = self._states.all()
        made = [item.id for item in states if change_set_id in item.replaces]
        if made:
            made += [item.id for item in states if item.waits_for == change_set_id]
            raise ChangeSetNotFound(
                f"The change set {change_set_id} is no more: it has become {' and '.join(made)}."
            )
        try:
            facts = read_object((self.folder / change_set_id / "set.json").read_bytes())
            return ChangeSet.from_json(facts | self._states.one(change_set_id).to_json())
        except FileNotFoundError:
            raise ChangeSetNotFound(f"There is no change set {change_set_id}.") from None
        except (ValueError, KeyError, TypeError) as error:
            raise ChangeSetNotFound(
                f"The change set {change_set_id} is damaged.", operator_detail=str(error)
            ) from error

    def workspace_of(self, change_set_id: str) -> bytes:
        """The folder that a set belongs to.

        Raises:
            ChangeSetNotFound: there is none of this id.
        """
        if is_set_id(change_set_id):
            with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
                return self._states.one(change_set_id).workspace
        raise ChangeSetNotFound("There is no change set of this id.")

    def sets(
        self, *, workspace: Path | None = None, session: str | None = None
    ) -> tuple[SetState, ...]:
        """All sets without their changes, oldest first; of one workspace, of one session."""
        found = self._states.all()
        gone = _replaced(found)
        return tuple(
            item
            for item in found
            if item.id not in gone
            and (item.waits_for is None or item.waits_for in gone)
            and (workspace is None or item.workspace == os.fsencode(workspace))
            and (session is None or item.session == session)
        )

    def pending(self, *, workspace: Path, session: str | None) -> tuple[SetState, ...]:
        """The held sets that the next call of a session sees, oldest first."""
        if session is None:
            return ()
        found = self.sets(workspace=workspace, session=session)
        return tuple(item for item in found if item.status == "held")

    def remove(self, change_set_id: str) -> None:
        """Delete a set and its content; one that is not there is no error."""
        if not is_set_id(change_set_id):
            return
        gone = self.folder / f".{ProcessName.current()}-{change_set_id}-{secrets.token_hex(3)}"
        with suppress(FileNotFoundError):
            os.rename(self.folder / change_set_id, gone)
            remove_tree(gone)

    def prune(self, *, max_age_s: float = 30 * _DAY_S, max_bytes: int = 4 * 1024**3) -> int:
        """Delete what may be forgotten, oldest first: applied and undone sets that are too old or
        too large together, and drafts of dead processes. Held sets stay, with those that they build
        on. Returns how many went.
        """
        gone = self._prune_drafts() + self._prune_replaced()
        known = self.sets()
        needed = {layer for item in known if item.status == "held" for layer in item.layers}
        decided = [
            item for item in known if item.status in ("applied", "undone") and item.id not in needed
        ]
        kept_bytes = 0
        for item in reversed(decided):
            kept_bytes += tree_usage(self.upper(item.id)).changed_bytes
            age_s = time.time() - (item.decided_s or item.created_s)
            if kept_bytes > max_bytes or age_s > max_age_s:
                gone += self._forget(item)
        return gone

    def _forget(self, item: SetState) -> int:
        """Remove a decided set, unless somebody is deciding about its workspace at this moment."""
        with suppress(Overloaded), workspace_lock(item.workspace, wait_s=0):
            with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
                if self._states.one(item.id).status == item.status:
                    self.remove(item.id)
                    return 1
        return 0

    def _prune_replaced(self) -> int:
        """Replaced sets go once no call can see them any more: calls last at most a day."""
        states = self._states.all()
        gone = _replaced(states)
        made = {old: item.created_s for item in states for old in item.replaces}
        known = {item.id for item in states}
        old = [name for name in gone & known if time.time() - made[name] > 2 * _DAY_S]
        for name in old:
            self.remove(name)
        return len(old)

    def _prune_drafts(self) -> int:
        gone = 0
        for name in os.listdir(self.folder):
            if not name.startswith("."):
                continue
            owner = ProcessName.parse("-".join(name[1:].split("-")[:6]))
            if owner is not None and owner.life() == "dead":
                remove_tree(self.folder / name)
                gone += 1
        return gone


def sync_file_system(path: Path | int) -> None:
    """Have everything on the file system of ``path`` reach the disk (syncfs(2)).

    Raises:
        OSError: it could not be written.
    """
    fd = path if isinstance(path, int) else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(fd):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        if not isinstance(path, int):
            os.close(fd)


def _replaced(states: list[SetState]) -> set[str]:
    return {old for item in states for old in item.replaces}


def _write(path: Path, data: dict[str, Any], *, sync: bool) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(draft, "x", encoding="ascii") as file:
            file.write(json.dumps(data))
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.rename(draft, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)
