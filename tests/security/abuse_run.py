"""Running the rows of the abuse corpus through the real path, a few at a time."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
import traceback
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
from tests.security.abuse import PATIENCE, Row, Seen, faults

from sandboxed_tools.policy import Policy
from sandboxed_tools.runtime import Toolbox
from sandboxed_tools.sandbox.contract import Sandbox
from sandboxed_tools.tool import Limits

__all__ = ["conduct", "snapshot"]

AT_ONCE = 3 if PATIENCE == 1 else 2
RESPONSIVE_S = 5.0 * PATIENCE


async def conduct(rows: Iterable[Row], sandbox: Sandbox) -> dict[str, list[str]]:
    """Run ``rows``; by id, everything that came to something else than expected."""
    found: dict[str, list[str]] = {}
    places = anyio.CapacityLimiter(AT_ONCE)

    async def one(row: Row) -> None:
        async with places:
            try:
                found[row.id] = await _row(row, sandbox)
            except Exception as error:  # noqa: BLE001 - this row's failure, and no other's
                found[row.id] = ["it could not be carried out", *traceback.format_exception(error)]

    chosen = list(rows)
    for heavy in (False, True):
        async with anyio.create_task_group() as group:
            for row in chosen:
                if row.is_heavy is heavy:
                    group.start_soon(one, row)
    return found


@asynccontextmanager
async def scratch_workspace() -> AsyncIterator[Path]:
    """A workspace with a few files and a link out, deleted afterwards whatever was made in it."""
    outer = Path(tempfile.mkdtemp(prefix="abuse-"))
    outer.chmod(0o711)
    workspace = outer / "workspace"
    try:
        (workspace / "sub").mkdir(parents=True)
        (workspace / "ok.txt").write_text("harmless\n")
        (workspace / "~").write_text("a plain name\n")
        (workspace / "sub" / "inner.txt").write_text("inner\n")
        (workspace / "way-out").symlink_to("/etc/passwd")
        yield workspace
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(
                lambda: subprocess.run(
                    ["rm", "-rf", "--", outer], check=True, timeout=60 * PATIENCE
                )
            )


def snapshot(root: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Mode, owner, time and content of every entry."""
    found = {}
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            path = Path(folder, name)
            info = path.lstat()
            content = b"" if path.is_dir() or path.is_symlink() else path.read_bytes()
            found[str(path)] = (info.st_mode, info.st_uid, info.st_mtime_ns, content)
    return found


def _limits(row: Row) -> Limits:
    return Limits.of(
        wall_s=row.wall_s,
        memory_bytes="256m",
        tmp_bytes="64m",
        file_bytes="128m",
        changes_bytes="64m",
        changes_entries=20_000,
        output_kept_bytes="64k",
        output_total_bytes="16m",
    )


async def _row(row: Row, sandbox: Sandbox) -> list[str]:
    async with scratch_workspace() as workspace:
        before = snapshot(workspace)
        box = Toolbox(
            sandbox=sandbox,
            workspace=workspace,
            limits=_limits(row),
            policy=Policy(mode="accept-edits"),
            changes="discard",
        )
        async with box:
            call = row.tool_call
            wrong = await (_bash_row(row, box) if call is None else _tool_row(row, box))
        if call is None and snapshot(workspace) != before:
            wrong.append("the host's workspace changed")
    async with scratch_workspace() as workspace:
        contained = Policy(sandbox="always")
        limits = Limits.of(wall_s=20 * PATIENCE)
        async with Toolbox(
            sandbox=sandbox,
            workspace=workspace,
            policy=contained,
            limits=limits,
            changes="discard",
        ) as box:
            wrong += await _witnesses(row, box)
    return wrong


async def _bash_row(row: Row, box: Toolbox) -> list[str]:
    wrong: list[str] = []
    seen: list[Seen] = []

    async def hostile() -> None:
        started = time.monotonic()
        done = await box.call("Bash", {"command": row.command})
        assert done.exec is not None
        # Making the container is the engine's speed, which other tests share.
        waited_s = done.exec.phases.queue_s + done.exec.phases.start_s
        seen.append(Seen(done.exec, time.monotonic() - started - waited_s))

    async with anyio.create_task_group() as group:
        group.start_soon(hostile)
        if row.twin.beside:
            await anyio.sleep(1.5 * PATIENCE)
            shown = await _shown(box, row.twin.beside)
            if row.twin.beside_shows not in shown:
                wrong.append(f"a call beside it showed {shown!r}")
    wrong += faults(row, seen[0])
    if wrong:
        wrong.append(f"ended as {seen[0].result.status}; output ends {seen[0].output[-400:]!r}")
    if any("answers a new" in text for text in row.host):
        started = time.monotonic()
        if "ok" not in await _shown(box, "echo ok"):
            wrong.append("the machine did not answer afterwards")
        if (took := time.monotonic() - started) > RESPONSIVE_S:
            wrong.append(f"the machine answered after {took:.1f} s")
    return wrong


async def _tool_row(row: Row, box: Toolbox) -> list[str]:
    """A call of a host tool: ``refused`` must raise and name why; ``ok`` must come back in time."""
    from sandboxed_tools.errors import CallError

    assert row.tool_call is not None
    name, raw = row.tool_call
    wrong = []
    try:
        with anyio.fail_after(30 * PATIENCE):
            done = await box.call(name, raw)
    except CallError as error:
        if not str(error).strip():
            wrong.append("the refusal names no error")
        if row.outcome != "refused" and row.outcome != "ok":
            wrong.append(f"raised {error!r}")
    else:
        executed = done.exec is not None and done.exec.stdout.endswith(b"executed\n")
        if row.outcome == "refused" and not executed:
            wrong.append(f"was not refused: {done.text[:300]!r}")
    if row.twin.twin is not None:
        done = await box.call(name, row.translated(name, row.twin.twin))
        if row.twin.shows not in done.text:
            wrong.append(f"its twin showed {done.text[:300]!r}")
    elif row.outcome == "refused":
        wrong.append("no twin is written for it")
    return wrong


async def _witnesses(row: Row, box: Toolbox) -> list[str]:
    """The twin, the question asked aloud, and the look afterwards, each in a container."""
    wrong = []
    twin = row.twin
    if row.tool_call is None and twin.twin is not None:
        shown = await _shown(box, twin.twin)
        if twin.shows not in shown:
            wrong.append(f"its harmless twin showed {shown!r}")
    if twin.ask:
        shown = await _shown(box, twin.ask)
        if not re.search(twin.error, shown):
            wrong.append(f"asked aloud, it named no error like {twin.error!r}: {shown!r}")
    if twin.after:
        shown = await _shown(box, twin.after)
        if twin.after_shows not in shown:
            wrong.append(f"afterwards a call showed {shown!r}")
    return wrong


async def _shown(box: Toolbox, text: str) -> str:
    done = await box.call("Bash", {"command": text})
    assert done.exec is not None
    return done.exec.stdout_text + done.exec.stderr_text
