"""Running the rows of the abuse corpus for change sets: held, decided, undone, on both views."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import subprocess
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
from tests.security.abuse_changes import (
    Changes,
    Picture,
    Row,
    descriptions,
    picture,
    shown_faults,
    strange_entries,
)

from sandboxed_tools.errors import SandboxedToolsError
from sandboxed_tools.sandbox.contract import Sandbox, SandboxSpec, WorkspaceMount
from sandboxed_tools.tool import Command, Limits
from sandboxed_tools.tool.mounts import ViewChoice
from sandboxed_tools.workspace import ChangeStore, Decision, apply_set, discard_set, undo_set

__all__ = ["conduct", "ground"]

AT_ONCE = 3
OWNER = 1234
ENV = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": "/tmp"}
ACCESS_LIST = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, bits, who)
    for tag, bits, who in ((1, 7, 0), (2, 7, 4711), (4, 4, 0), (16, 7, 0), (32, 4, 0))
)
"""Everything for user 4711 (acl(5), as the kernel stores it)."""


@contextmanager
def ground() -> Iterator[Path]:
    """A folder with a workspace of user 1234, and beside it the canary, which is nobody's business.

    The workspace has everything that a command might turn against its host: a repository, ways
    out, set-id files, special files, attributes, hard links.
    """
    top = Path(tempfile.mkdtemp(prefix="abuse-changes-"))
    top.chmod(0o755)
    try:
        (top / "canary" / "dir").mkdir(parents=True)
        (top / "canary" / "secret.txt").write_text("the host's\n")
        (top / "canary" / "dir" / "file").write_text("the host's, too\n")
        (top / "canary.txt").write_text("canary\n")
        _fill(top / "workspace", top / "canary")
        yield top
    finally:
        subprocess.run(["rm", "-rf", "--", top], check=True, timeout=60)


FILES = {
    "ok.txt": "harmless\n",
    "private.txt": "private\n",
    "run.sh": "#!/bin/sh\n",
    "tool": "tool\n",
    "marked.txt": "marked\n",
    "sub/inner.txt": "inner\n",
    "sub/deep/data.bin": "data\n",
    "docs/a.md": "# A\n",
    "docs/b.md": "# B\n",
    "team/tool2": "tool\n",
    "shared/s": "shared\n",
    "hard/one": "linked\n",
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/config": "[core]\n",
    ".git/objects/ab/cd": "object\n",
    ".git/refs/heads/main": "0\n",
    ".git/hooks/sample": "#!/bin/sh\n",
}
MODES = {
    "private.txt": 0o600,
    "run.sh": 0o755,
    "tool": 0o4755,
    "team/tool2": 0o6755,
    "team": 0o2775,
}


def _fill(root: Path, canary: Path) -> None:
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    os.link(root / "hard" / "one", root / "hard" / "two")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "socket"))
    for name, target in (
        ("link", "ok.txt"),
        ("folder-link", "sub"),
        ("way-out", str(canary / "secret.txt")),
        ("way-out-dir", str(canary)),
    ):
        (root / name).symlink_to(target)
    for path in (root, *root.rglob("*")):
        os.chown(path, OWNER, OWNER, follow_symlinks=False)
    for name, mode in MODES.items():
        (root / name).chmod(mode)
    os.setxattr(root / "marked.txt", "user.mine", b"host")
    os.setxattr(root / "shared", "user.mine", b"host")
    os.setxattr(root / "shared", "system.posix_acl_access", ACCESS_LIST)


async def conduct(cases: Iterable[tuple[Row, str]], sandbox: Sandbox, image: str) -> Found:
    """Run rows on views; by both, everything that came to something else than expected."""
    found: Found = {}
    places = anyio.CapacityLimiter(AT_ONCE)

    async def one(row: Row, view: str) -> None:
        async with places:
            with ground() as top:
                case = _Case(row, view, top, sandbox, image)
                try:
                    found[row.id, view] = await case.faults()
                except (OSError, SandboxedToolsError):
                    # The other rows are judged all the same.
                    found[row.id, view] = [*case.wrong, traceback.format_exc()[-3000:]]

    async with anyio.create_task_group() as group:
        for row, view in cases:
            group.start_soon(one, row, view)
    return found


Found = dict[tuple[str, str], list[str]]
_number = itertools.count()


@dataclass
class _Case:
    """One row on one view, on a ground of its own."""

    row: Row
    view: str
    top: Path
    sandbox: Sandbox
    image: str
    store: ChangeStore = field(default_factory=ChangeStore)
    wrong: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    shown: list[Changes] = field(default_factory=list)

    @property
    def workspace(self) -> Path:
        return self.top / "workspace"

    async def faults(self) -> list[str]:
        before, beside = picture(self.workspace), self._beside()
        outputs = await self._call()
        self._expect(picture(self.workspace) == before, "the host changed while it was held")
        await anyio.to_thread.run_sync(self._decided, before)
        self._expect(self._beside() == beside, "something beside the workspace changed")
        if self.wrong:
            self.wrong.append(f"the commands printed {outputs!r}")
        return self.wrong

    def _beside(self) -> Picture:
        everything = picture(self.top)
        own = ("workspace/", ".")
        return {
            name: facts
            for name, facts in everything.items()
            if name != "workspace" and not name.startswith(own)
        }

    def _expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(what)

    def _filled(self, text: str) -> str:
        canary, workspace = str(self.top / "canary"), str(self.workspace)
        return text.replace("{canary}", canary).replace("{workspace}", workspace)

    async def _call(self) -> list[str]:
        spec = SandboxSpec(
            self.image,
            limits=Limits.of(**{"wall_s": 60, "file_bytes": "128m", **self.row.limits}),
            workspace=WorkspaceMount(
                self.workspace,
                changes="hold",
                view=_choice(self.view),
                session=f"abuse-{next(_number)}",
            ),
        )
        outputs: list[str] = []
        notes: list[str] = []
        for text in self.row.commands:
            command = Command(("bash", "-c", self._filled(text)), env=ENV)
            result = await self.sandbox.run(spec, command)
            outputs.append(f"{result.status} {result.exit_code} {result.stderr_text[-300:]}")
            assert result.changes is not None
            self._expect(result.view == self.view, f"the view was {result.view}")
            if result.changes.id is None:
                self._expect(result.changes.decision == "none", str(result.changes))
                self.shown.append({})
                continue
            self.held.append(result.changes.id)
            change_set = self.store.get(result.changes.id)
            self.shown.append({os.fsdecode(c.path): c.action for c in change_set.changes})
            notes += change_set.notes
        self.wrong += shown_faults(self.row, self.view, self.shown, " ".join(notes))
        return outputs

    def _decided(self, before: Picture) -> None:
        if self.row.meanwhile:
            script = self._filled(self.row.meanwhile)
            subprocess.run(["bash", "-ec", script], cwd=self.workspace, check=True, timeout=60)
            before = picture(self.workspace)
        if self.row.outcome == "nothing":
            self._expect(not self.held, "something was held")
            return
        self._expect(bool(self.held), "nothing was held")
        if self._asked(before) and self._applied(before):
            self._undone(before)
        for change_set_id in reversed(self.held):
            self._expect(discard_set(self.store, change_set_id).done, "it was not discarded")

    def _asked(self, before: Picture) -> bool:
        """Apply without any word, which must be answered as the row says; whether to go on."""
        outcome = self.row.outcome
        if outcome == "applied":
            return True
        decision = apply_set(self.store, self.held[0])
        kinds = {problem.kind for problem in decision.problems}
        expected = {"asks": {"protected"}, "refused": {"refused"}, "conflict": {"conflict"}}
        self._expect(kinds == expected[outcome], f"refused for {kinds}, expected {outcome}")
        self._expect(picture(self.workspace) == before, "a refused apply changed the host")
        if outcome == "refused" or self.row.forced == "refused":
            decision = self._apply(self.held[0])
            self._expect(not decision.done, "it was applied by force")
            self._expect(picture(self.workspace) == before, "a forced apply changed the host")
            return bool(self.row.excluding)
        return True

    def _apply(self, change_set_id: str, excluding: tuple[str, ...] = ()) -> Decision:
        """With every word that a user has, unless the row must do without any."""
        insisting = self.row.outcome != "applied"
        return apply_set(
            self.store,
            change_set_id,
            excluding=excluding,
            force=self.row.outcome in ("refused", "conflict"),
            allow_protected=insisting,
        )

    def _applied(self, before: Picture) -> bool:
        for number, change_set_id in enumerate(self.held):
            decision = self._apply(change_set_id, self.row.excluding)
            if not decision.done:
                problems = [(str(item), item.kind) for item in decision.problems]
                self.wrong.append(f"it was not applied: {problems}")
                return False
            if decision.rest is not None:
                self._expect(discard_set(self.store, decision.rest).done, "the rest stayed")
                self.held[number] = decision.change_set.id
        now = picture(self.workspace)
        if self.row.outcome != "conflict":
            self.wrong += strange_entries(before, now, owner=OWNER)
        self.wrong += self._others(before, now)
        for path, expected in self.row.after.items():
            found = descriptions(now.get(path))
            self._expect(self._filled(expected) in found, f"{path!r} is {found}")
        return True

    def _others(self, before: Picture, now: Picture) -> Iterator[str]:
        """What no set speaks of must be as before; a folder's time follows what it holds."""
        changed = {path for shown in self.shown for path in shown}
        for name in sorted({*before, *now} - changed):
            above = {name[:end] for end, letter in enumerate(name) if letter == "/"}
            old, new = before.get(name), now.get(name)
            if above & changed or (old and new and old.mode == new.mode and old.size == 0):
                continue
            if old is None or new is None or (old.mode, old.content) != (new.mode, new.content):
                yield f"{name!r} changed, though no set speaks of it"

    def _undone(self, before: Picture) -> None:
        # What was undone can be applied again; the views do not differ in that.
        for again in (True, False) if self.view == "overlay" else (False,):
            for change_set_id in reversed(self.held):
                decision = undo_set(self.store, change_set_id)
                self._expect(decision.done, f"it was not undone: {decision.problems}")
            now = picture(self.workspace)
            differing = {n: (before.get(n), now.get(n)) for n in {*before, *now}}
            left = {name: pair for name, pair in differing.items() if pair[0] != pair[1]}
            self._expect(not left, f"undo did not restore {dict(list(left.items())[:3])}")
            if again and not self.wrong:
                for change_set_id in self.held:
                    self._expect(self._apply(change_set_id).done, "it was not applied again")


def _choice(view: str) -> ViewChoice:
    return "copy" if view == "copy" else "overlay"
