"""``python -m tests.vm``: the project in a Debian of its own, with the engine and kernel it brings.

Boots a virtual machine in software emulation, runs the doctor, the conformance suite and the abuse
corpus in it, and ends with 1 unless all of them held.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.vm.machine import Disks, StepResult, boot
from tests.vm.places import VM_FOLDER
from tests.vm.plan import STEPS, plan
from tests.vm.programs import Failed, require_programs
from tests.vm.project_disk import ensure_images, make_project_disk
from tests.vm.report import rows, show
from tests.vm.root_disk import ensure_root_disk

from sandboxed_tools.errors import SandboxedToolsError
from sandboxed_tools.sandbox.docker.progress import open_progress
from sandboxed_tools.tool.foreign_text import for_terminal

BOOT_DEADLINE_S = 900.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="make test-vm", description=__doc__)
    optional = [step.name for step in STEPS if not step.is_needed]
    parser.add_argument("--only", action="append", choices=optional, default=[])
    parser.add_argument("--rebuild", action="store_true", help="make the root disk again")
    options = parser.parse_args()
    only = tuple(options.only)
    try:
        results = run_machine(only, rebuild=options.rebuild)
    except (Failed, SandboxedToolsError) as error:
        detail = getattr(error, "operator_detail", "")
        sys.stderr.write(for_terminal(f"{detail}\nerror: {error}".lstrip()) + "\n")
        return 2
    table = rows([step["name"] for step in plan(only)], results)
    show(table)
    return 0 if all(row.held for row in table) else 1


def run_machine(only: tuple[str, ...], *, rebuild: bool) -> list[StepResult]:
    """Make what is missing, boot, and keep console and results in the folder ``last``."""
    steps = plan(only)
    with open_progress() as progress:
        require_programs(progress)
        root = ensure_root_disk(rebuild=rebuild, progress=progress)
        images = ensure_images(progress)
        with TemporaryDirectory(prefix="run-", dir=VM_FOLDER) as name:
            folder = Path(name)
            make_project_disk(folder / "project.tar", steps, progress)
            progress.step("booting the machine")
            try:
                return boot(
                    Disks(root, folder / "project.tar", images),
                    folder,
                    deadline_s=BOOT_DEADLINE_S + sum(step["deadline_s"] for step in steps),
                    progress=progress,
                )
            finally:
                keep(folder)


def keep(folder: Path) -> None:
    """Put what tells of this run in place of what told of the one before."""
    last = VM_FOLDER / "last"
    last.mkdir(exist_ok=True)
    for name in ("console.log", "results.jsonl"):
        if (folder / name).exists():
            (folder / name).replace(last / name)


if __name__ == "__main__":
    sys.exit(main())
