"""Installing packages of the distribution, where this user may do so without being asked anything.

Only apt is known. Anywhere else the caller is told what to install by hand.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from sandboxed_tools.sandbox.docker.host_process import run_program
from sandboxed_tools.sandbox.docker.progress import Progress

__all__ = ["Installation", "install_packages", "root_prefix"]

APT_DEADLINE_S = 1200.0


@dataclass(frozen=True, slots=True)
class Installation:
    """Whether packages are there now; ``detail`` says why not, and what to type."""

    ok: bool
    detail: str = ""


def root_prefix() -> tuple[str, ...] | None:
    """What to put before a command that needs root: nothing, ``sudo -n``, or ``None``: not allowed.

    A sudo that would ask for a password counts as not allowed: set-up never waits for a person.
    """
    if os.geteuid() == 0:
        return ()
    sudo = shutil.which("sudo")
    if sudo is None:
        return None
    try:
        asked = subprocess.run(
            [sudo, "-n", "true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (sudo, "-n") if asked.returncode == 0 else None


def install_packages(names: Sequence[str], *, progress: Progress) -> Installation:
    """Install packages through apt, without recommended ones and without questions.

    Blocks for up to twenty minutes. Never raises for a failed installation.
    """
    wanted = " ".join(names)
    by_hand = f"install it by hand: apt-get install {wanted}"
    if shutil.which("apt-get") is None:
        return Installation(False, f"there is no apt here: install the equivalent of {wanted}")
    prefix = root_prefix()
    if prefix is None:
        return Installation(
            False, f"this user may not install packages: sudo apt-get install {wanted}"
        )
    # `env` keeps the variable through sudo, which resets the environment.
    apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]
    # Another apt (unattended upgrades after boot) holds the lock for minutes: wait, do not fail.
    options = ["-o", "DPkg::Lock::Timeout=300"]
    install = ["install", "-y", "--no-install-recommends", "--", *names]
    progress.step(f"installing {wanted} through apt")
    try:
        # Package lists are missing on a bare image and outdated on an old one.
        run_program([*apt, *options, "update"], deadline_s=APT_DEADLINE_S, on_line=progress.line)
        done = run_program(
            [*apt, *options, *install], deadline_s=APT_DEADLINE_S, on_line=progress.line
        )
    except OSError as error:
        return Installation(False, f"apt cannot be run ({error.strerror}); {by_hand}")
    if not done.ok:
        why = "took too long" if done.timed_out else f"failed with {done.exit_code}"
        return Installation(False, f"apt-get {why}: {' | '.join(done.tail[-3:])}; {by_hand}")
    return Installation(True)
