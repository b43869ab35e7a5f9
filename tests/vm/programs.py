"""The programs of this machine that the virtual one is made with, and running them."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Sequence

from sandboxed_tools.sandbox.docker.host_process import run_program
from sandboxed_tools.sandbox.docker.packages import install_packages
from sandboxed_tools.sandbox.docker.progress import Progress

__all__ = ["EMULATOR", "Failed", "require_programs", "run", "user_namespace"]

EMULATOR = "qemu-system-x86_64"
PACKAGE_OF = {
    EMULATOR: "qemu-system-x86",
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "tar": "tar",
}
SYSTEM_FOLDERS = "/usr/sbin:/sbin"  # mke2fs lives there, and an ordinary user's PATH lacks it


class Failed(Exception):
    """The machine could not be made or did not run; the message says what to do."""


def require_programs(progress: Progress) -> None:
    """Install what is missing, where this user may; it says so first.

    Raises:
        Failed: this is no Linux on amd64, or something is missing and may not be installed.
    """
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise Failed(
            "the virtual machine is made on Linux on amd64 only; "
            f"this is {platform.system()} on {platform.machine()}"
        )
    os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}:{SYSTEM_FOLDERS}"
    needed = PACKAGE_OF if os.geteuid() == 0 else {**PACKAGE_OF, "newuidmap": "uidmap"}
    if missing := [name for name in needed if shutil.which(name) is None]:
        # The archive's keys are a package of their own on anything but Debian.
        wanted = [*(needed[name] for name in missing), "debian-archive-keyring"]
        installed = install_packages(wanted, progress=progress)
        if not installed.ok:
            raise Failed(f"{', '.join(missing)}: not here. {installed.detail}")


def user_namespace() -> tuple[str, ...]:
    """What to put before a command that makes files of many owners: nothing for root."""
    if os.geteuid() == 0:
        return ()
    return ("unshare", "--map-root-user", "--map-auto", "--")


def run(argv: Sequence[str], *, deadline_s: float, progress: Progress) -> None:
    """Run a program to its end.

    Raises:
        Failed: it cannot be started, failed, or took too long; with its last lines.
    """
    try:
        done = run_program(argv, deadline_s=deadline_s, on_line=progress.line)
    except OSError as error:
        raise Failed(f"{argv[0]} cannot be run: {error.strerror}") from error
    if not done.ok:
        how = "took too long" if done.timed_out else f"failed with {done.exit_code}"
        raise Failed("\n".join([*done.tail[-15:], f"{argv[0]} {how}"]))
