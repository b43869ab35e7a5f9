"""What change sets cost: 10,000 small files beside ``cp -r``, deep trees, and calls on 100,000.

    python benchmarks/changes.py [files] [deep] [calls] [--json]

Runs as root, from the checkout. Only ``calls`` takes an engine; elsewhere the overlay is mounted
here as the engine would. Everything that is compared is measured in turn in one run. The ratios of
processor time say something on a busy machine, too, and in memory (tmpfs) there is no disk that
``cp -r`` could wait for. ``BENCH_DIR`` names the folder, and so the disk, of the first.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

if TYPE_CHECKING:
    from sandboxed_tools.sandbox.docker import DockerSandbox

FILES = 10_000
FOLDERS = 100
ROUNDS = 3
DEPTHS = (2_500, 5_000)
MANY_FILES = 100_000
CALLS = 30
PROMISED_RATIO = 4.0
PROMISED_MS = 15.0

CASES = {
    "new, in new folders": ("mkdir new && cp -r {source}/. new", ""),
    "new, in folders that are there": ("cp -r {source}/. .", "mkdir -p $(seq 0 99)"),
    "edited": ("for f in */f*; do echo y >> $f; done", "cp -r {source}/. ."),
    "deleted": ("rm */f*", "cp -r {source}/. ."),
}


@dataclass(frozen=True)
class Spent:
    """Seconds by the clock, and of processor time, children's included."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class Row:
    """What one kind of change costs, and how many times ``cp -r`` the apply takes."""

    what: str
    where: str
    read: Spent
    apply: Spent
    undo: Spent
    copy: Spent | None = None

    @property
    def ratios(self) -> tuple[float, float]:
        assert self.copy is not None
        return self.apply.wall_s / self.copy.wall_s, self.apply.cpu_s / self.copy.cpu_s


def spent(work: Callable[[], object]) -> Spent:
    before, begin = os.times(), time.perf_counter()
    work()
    wall_s = time.perf_counter() - begin
    return Spent(wall_s, sum(os.times()[:4]) - sum(before[:4]))


def least(items: list[Spent]) -> Spent:
    return Spent(min(item.wall_s for item in items), min(item.cpu_s for item in items))


def sync() -> None:
    subprocess.run(["sync"], check=True)


@contextmanager
def ground(where: str) -> Iterator[Path]:
    """A folder of its own, with the state folder in it, on the disk or in memory."""
    base = Path(tempfile.mkdtemp(prefix="changes-", dir=os.environ.get("BENCH_DIR")))
    if where == "memory":
        subprocess.run(["mount", "-t", "tmpfs", "none", base], check=True)
    base.chmod(0o711)
    os.environ["SANDBOXED_TOOLS_STATE_DIR"] = str(base / "state")
    try:
        yield base
    finally:
        if where == "memory":
            subprocess.run(["umount", base], check=True)
        from sandboxed_tools.workspace.remove import remove_tree

        remove_tree(base)


def make_files(folder: Path, count: int) -> None:
    for index in range(FOLDERS):
        (folder / str(index)).mkdir(parents=True)
        for number in range(count // FOLDERS):
            (folder / str(index) / f"f{number}").write_text("x" * 200)


def as_user(folder: Path, uid: int, work: Callable[[], object]) -> None:
    """Do something in a folder in a child of its own, without any privilege."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.chdir(folder)
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            os.umask(0o022)
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def held(base: Path, work: Callable[[], object]) -> tuple[str, Spent]:
    """A held set of what ``work`` does on an overlay of the workspace, and what reading it cost."""
    from sandboxed_tools.tool.mounts import ContainerUser, WorkspaceMount
    from sandboxed_tools.workspace import WorkspaceViews

    user = ContainerUser(uid=0x70000001, gid=0x70000001)
    merged = base / "merged"
    merged.mkdir()
    view = WorkspaceViews().open(WorkspaceMount(source=base / "workspace", changes="hold"), user)
    try:
        options = view.mounts[0].overlay_options
        subprocess.run(["mount", "-t", "overlay", "none", "-o", options, merged], check=True)
        try:
            as_user(merged, user.uid, work)
        finally:
            subprocess.run(["umount", merged], check=True)
        ids: list[str | None] = []
        read = spent(lambda: ids.append(view.settle(ended_by_itself=True).id))
    finally:
        view.close()
        merged.rmdir()
    assert ids[0] is not None
    return ids[0], read


def decide(change_set_id: str) -> tuple[Spent, Spent]:
    """Apply a set and undo it."""
    from sandboxed_tools.workspace import ChangeStore, apply_set, undo_set

    store = ChangeStore()
    sync()
    applied = spent(lambda: apply_set(store, change_set_id))
    sync()
    undone = spent(lambda: undo_set(store, change_set_id))
    assert store.get(change_set_id).status == "undone"
    store.remove(change_set_id)
    return applied, undone


def beside_a_copy(what: str, where: str, base: Path) -> Row:
    """One case, each round in a workspace of its own; the least of all rounds."""
    script, before = (text.format(source=base / "source") for text in CASES[what])
    rounds: list[tuple[Spent, ...]] = []
    workspace, copy = base / "workspace", base / "copy"
    for _ in range(ROUNDS):
        workspace.mkdir()
        subprocess.run(["sh", "-c", before or "true"], cwd=workspace, check=True)
        change_set_id, read = held(
            base, lambda: subprocess.run(["/bin/sh", "-c", script], check=True)
        )
        sync()
        copied = spent(lambda: subprocess.run(["cp", "-r", base / "source", copy], check=True))
        rounds.append((read, *decide(change_set_id), copied))
        shutil.rmtree(workspace)
        shutil.rmtree(copy)
    read, applied, undone, copied = (least(list(column)) for column in zip(*rounds, strict=True))
    return Row(what, where, read, applied, undone, copied)


def deep(depth: int, base: Path) -> Row:
    """Folders below each other, with a file at the end of them."""

    def work() -> None:
        for _ in range(depth):
            os.mkdir("d")
            os.chdir("d")
        os.close(os.open("file", os.O_CREAT))

    (base / "workspace").mkdir()
    change_set_id, read = held(base, work)
    row = Row(f"{depth} folders deep", "memory", read, *decide(change_set_id))
    (base / "workspace").rmdir()
    return row


def wait_until_ready(sandbox: DockerSandbox) -> None:
    """Wait until containers stand ready and nothing is being removed."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        status = sandbox.status()
        if not status.removing and all(item.ready >= item.target for item in status.shelves):
            break
        time.sleep(0.02)
    time.sleep(0.05)


async def calls(base: Path) -> dict[str, list[float]]:
    """Milliseconds of warm calls, each with its container made ahead, in turn."""
    from sandboxed_tools.sandbox.contract import SandboxSpec, WorkspaceMount
    from sandboxed_tools.sandbox.docker import DockerSandbox, find_engine
    from sandboxed_tools.sandbox.docker.images import BASE_IMAGE
    from sandboxed_tools.tool import Command
    from sandboxed_tools.workspace import WorkspaceViews

    plain = SandboxSpec(BASE_IMAGE)
    place = WorkspaceMount(base / "workspace", changes="hold")
    seen = SandboxSpec(BASE_IMAGE, workspace=place)
    ten = "for i in 0 1 2 3 4 5 6 7 8 9; do echo y > $i; done; exit 3"
    kinds = {
        "no workspace, nothing": (plain, "exit 3"),
        "workspace, nothing": (seen, "exit 3"),
        "no workspace, ten files": (plain, f"cd /tmp; {ten}"),
        "workspace, ten files": (seen, f"mkdir -p x; cd x; {ten}"),
    }
    times: dict[str, list[float]] = {what: [] for what in kinds}
    sandbox = DockerSandbox(find_engine(), views=WorkspaceViews())
    try:
        for spec in (plain, seen):
            await sandbox.prewarm(spec, 3)
        for _ in range(CALLS + 1):
            for what, (spec, script) in kinds.items():
                await anyio.to_thread.run_sync(wait_until_ready, sandbox)
                begin = time.perf_counter()
                result = await sandbox.run(spec, Command(("bash", "-c", script)))
                times[what].append((time.perf_counter() - begin) * 1000)
                assert result.exit_code == 3, result
    finally:
        await sandbox.aclose()
    # The first round warms up.
    return {what: values[1:] for what, values in times.items()}


def main() -> None:
    wanted = {word for word in sys.argv[1:] if word != "--json"} or {"files", "deep", "calls"}
    rows: list[Row] = []
    times: dict[str, list[float]] = {}
    for where in ("disk", "memory") if "files" in wanted else ():
        with ground(where) as base:
            make_files(base / "source", FILES)
            rows += [beside_a_copy(what, where, base) for what in CASES]
    for depth in DEPTHS if "deep" in wanted else ():
        with ground("memory") as base:
            rows.append(deep(depth, base))
    if "calls" in wanted:
        with ground("disk") as base:
            make_files(base / "workspace", MANY_FILES)
            times = anyio.run(calls, base)
    if "--json" in sys.argv:
        text = json.dumps({"rows": [asdict(row) for row in rows], "calls_ms": times})
        sys.stdout.write(f"{text}\n")
    else:
        show(rows, times)


def show(rows: list[Row], times: dict[str, list[float]]) -> None:
    write = sys.stdout.write
    columns = " ".join(f"{name:>13}" for name in ("read", "apply", "undo", "cp -r"))
    write(f"{'seconds (of processor time)':34} {columns}  promised: {PROMISED_RATIO} x cp -r\n")
    for row in rows:
        cells = (row.read, row.apply, row.undo, *([row.copy] if row.copy else []))
        texts = [f"{cell.wall_s:6.2f} ({cell.cpu_s:4.2f})" for cell in cells]
        ratio = "  {:4.1f} ({:3.1f}) x cp -r".format(*row.ratios) if row.copy else ""
        write(f"{row.where:7}{row.what:27} {' '.join(f'{text:>13}' for text in texts)}{ratio}\n")
    for what, values in times.items():
        write(f"{what:34} {statistics.median(values):7.1f} ms, at best {min(values):7.1f}\n")
    for changes in ("nothing", "ten files") if times else ():
        seen, plain = (times[f"{place}, {changes}"] for place in ("workspace", "no workspace"))
        more, best = statistics.median(seen) - statistics.median(plain), min(seen) - min(plain)
        write(f"a workspace costs, {changes:15} {more:7.1f} ms, at best {best:7.1f}")
        write(f" (promised: {PROMISED_MS})\n")


if __name__ == "__main__":
    main()
