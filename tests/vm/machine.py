"""The virtual machine: one start, from power on to power off, and what came out of it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.vm.programs import EMULATOR, Failed
from tests.vm.root_disk import RootDisk

from sandboxed_tools.sandbox.docker.host_process import run_program
from sandboxed_tools.sandbox.docker.progress import Progress

__all__ = ["Disks", "StepResult", "boot"]

MEMORY = "3G"
PROCESSORS = 2
# Emulated in software whatever this machine could do: it then runs anywhere, and the same.
ACCELERATOR = "tcg,thread=multi,tb-size=512"


@dataclass(frozen=True, slots=True)
class Disks:
    """What the guest sees: its root as ``vda``, and two archives as ``vdb`` and ``vdc``."""

    root: RootDisk
    project: Path
    images: Path


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step came to. ``file`` is the content of the file that the step named, if any."""

    name: str
    exit_code: int
    timed_out: bool
    seconds: float
    stdout: str
    stderr: str
    file: str | None


def boot(disks: Disks, folder: Path, *, deadline_s: float, progress: Progress) -> list[StepResult]:
    """Run the machine until it powers itself off; the results of the steps that it got to.

    ``folder`` gets the console's log and the results as they came, and holds the machine's own copy
    of the root disk while it runs.

    Raises:
        Failed: the machine cannot be started, or was still running after ``deadline_s`` seconds.
    """
    results, console = folder / "results.jsonl", folder / "console.log"
    try:
        done = run_program(
            # Whoever kills this program by SIGKILL takes the machine along.
            ["setpriv", "--pdeathsig", "KILL", "--", *_command(disks, results, console)],
            deadline_s=deadline_s,
            on_line=progress.step,
            env={**os.environ, "TMPDIR": str(folder)},
        )
    except OSError as error:
        raise Failed(f"the machine cannot be started: {error.strerror}") from error
    if done.timed_out:
        raise Failed(f"the machine was still running after {deadline_s:.0f} s; see {console}")
    if not done.ok:
        raise Failed("\n".join([*done.tail, f"{EMULATOR} ended with {done.exit_code}"]))
    return read_results(results)


def read_results(file: Path) -> list[StepResult]:
    """The results in ``file``; a last line that broke off is none."""
    found = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
        if line.endswith("\n"):
            raw: dict[str, Any] = json.loads(line)
            found.append(StepResult(**raw))
    return found


def _command(disks: Disks, results: Path, console: Path) -> list[str]:
    kernel_words = (
        "root=/dev/vda rw console=ttyS0 panic=-1 systemd.mask=serial-getty@ttyS0.service"
        " systemd.journald.forward_to_console=1 systemd.journald.max_level_console=warning"
    )
    return [
        *(EMULATOR, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"),
        *("-machine", "q35", "-accel", ACCELERATOR, "-cpu", "max"),
        *("-smp", str(PROCESSORS), "-m", MEMORY, "-nic", "none"),
        *("-kernel", str(disks.root.kernel), "-initrd", str(disks.root.initrd)),
        *("-append", kernel_words),
        *("-drive", _drive(disks.root.disk, "snapshot=on")),
        *("-drive", _drive(disks.project, "readonly=on")),
        *("-drive", _drive(disks.images, "readonly=on")),
        *("-device", "virtio-rng-pci", "-device", "virtio-serial-pci"),
        *("-chardev", "file,id=progress,path=/dev/stdout"),
        *("-device", "virtserialport,chardev=progress,name=progress"),
        *("-chardev", f"file,id=results,path={_escaped(results)}"),
        *("-device", "virtserialport,chardev=results,name=results"),
        *("-serial", f"file:{console}"),
    ]


def _drive(file: Path, how: str) -> str:
    return f"file={_escaped(file)},if=virtio,format=raw,{how}"


def _escaped(path: Path) -> str:
    """In the emulator's options a comma is written twice."""
    return str(path).replace(",", ",,")
