"""What change sets cost: reading, applying and undoing 10,000 small files, beside ``cp -r``.

Runs as root, without an engine: the overlay is mounted here as the engine would. Prints a table,
and with ``--json`` one object. Times on a busy machine say little; the ratios come from one run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

FILES = 10_000
FOLDERS = 100


@dataclass(frozen=True)
class Row:
    """Seconds for one kind of change, and how many times ``cp -r`` the apply takes."""

    what: str
    read_s: float
    apply_s: float
    undo_s: float
    copy_s: float

    @property
    def ratio(self) -> float:
        return self.apply_s / self.copy_s


CASES = {
    "new, in new folders": ("mkdir new && cp -r {source}/. new", ""),
    "new, in folders that are there": ("cp -r {source}/. .", "mkdir -p $(seq 0 99)"),
    "edited": ("for f in */f*; do echo y >> $f; done", "cp -r {source}/. ."),
    "deleted": ("rm */f*", "cp -r {source}/. ."),
}


def measure(what: str, base: Path, source: Path) -> Row:
    """One case, in a workspace of its own."""
    from sandboxed_tools.tool.mounts import ContainerUser, WorkspaceMount
    from sandboxed_tools.workspace import ChangeStore, WorkspaceViews, apply_set, undo_set

    script, before = (text.format(source=source) for text in CASES[what])
    workspace, merged, copy = (base / name for name in ("workspace", "merged", "copy"))
    for folder in (workspace, merged):
        folder.mkdir()
    subprocess.run(["sh", "-c", before or "true"], cwd=workspace, check=True)
    user = ContainerUser(uid=0x70000001, gid=0x70000001)
    view = WorkspaceViews().open(WorkspaceMount(source=workspace, changes="hold"), user)
    try:
        options = view.mounts[0].overlay_options
        subprocess.run(["mount", "-t", "overlay", "none", "-o", options, merged], check=True)
        try:
            subprocess.run(["sh", "-c", script], cwd=merged, user=user.uid, check=True)
        finally:
            subprocess.run(["umount", merged], check=True)
        begin = time.perf_counter()
        summary = view.settle(ended_by_itself=True)
        read_s = time.perf_counter() - begin
    finally:
        view.close()
    assert summary.id is not None
    store = ChangeStore()
    subprocess.run(["sync"], check=True)
    copied = _timed(lambda: subprocess.run(["cp", "-r", source, copy], check=True))
    subprocess.run(["sync"], check=True)
    applied = _timed(lambda: apply_set(store, summary.id or ""))
    subprocess.run(["sync"], check=True)
    undone = _timed(lambda: undo_set(store, summary.id or ""))
    store.remove(summary.id)
    for folder in (workspace, merged, copy):
        shutil.rmtree(folder)
    return Row(what, read_s, applied, undone, copied)


def _timed(work: object) -> float:
    begin = time.perf_counter()
    assert callable(work)
    work()
    return time.perf_counter() - begin


def main() -> None:
    base = Path(tempfile.mkdtemp(prefix="changes-", dir=os.environ.get("BENCH_DIR")))
    base.chmod(0o711)
    os.environ["SANDBOXED_TOOLS_STATE_DIR"] = str(base / "state")
    try:
        source = base / "source"
        for index in range(FOLDERS):
            (source / str(index)).mkdir(parents=True)
            for number in range(FILES // FOLDERS):
                (source / str(index) / f"f{number}").write_text("x" * 200)
        rows = [measure(what, base, source) for what in CASES]
    finally:
        shutil.rmtree(base)
    if "--json" in sys.argv:
        sys.stdout.write(json.dumps([{**asdict(row), "ratio": row.ratio} for row in rows]) + "\n")
        return
    sys.stdout.write(f"{FILES} files: {'':20} read   apply    undo   cp -r   apply/cp\n")
    for row in rows:
        times = f"{row.read_s:7.2f} {row.apply_s:7.2f} {row.undo_s:7.2f} {row.copy_s:7.2f}"
        sys.stdout.write(f"{row.what:32} {times} {row.ratio:9.1f}\n")


if __name__ == "__main__":
    main()
