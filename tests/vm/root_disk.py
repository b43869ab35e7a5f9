"""The guest's root disk: Debian's packages, and the Python packages that the project depends on.

Made once and kept under a key of everything that it is made from, so that a change of the project
itself makes no new one. It is never written to: the machine works on a copy that goes with it.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.vm.places import CHECKOUT, VM_FOLDER
from tests.vm.programs import run, user_namespace

from sandboxed_tools.sandbox.docker.progress import Progress

__all__ = ["RootDisk", "ensure_root_disk", "requirements", "root_key"]

SUITE = "trixie"
PYTHON = "3.13"  # the suite's own
PACKAGES = (
    # a machine that boots
    *("linux-image-amd64", "systemd-sysv", "udev", "dbus", "kmod", "procps", "apparmor"),
    # the engine
    *("docker.io", "iptables", "ca-certificates"),
    # what the project and its tests call
    *("python3", "python3-venv", "git", "ripgrep"),
)
DISK_BYTES = 6 * 1024**3
MAKE_DEADLINE_S = 1800.0
WHEELS_DEADLINE_S = 900.0
TEST_REQUIREMENTS = ("pytest", "pytest-timeout")

# Only what leads to the root disk, instead of every driver there is: a small initrd boots sooner.
INITRAMFS = ("virtio_pci", "virtio_blk", "ext4")

UNIT = """\
[Unit]
Description=The steps of a test run
Wants=docker.service
After=docker.service multi-user.target
SuccessAction=poweroff-force
FailureAction=poweroff-force

[Service]
Type=oneshot
Environment=HOME=/root LANG=C.UTF-8
ExecStart=/bin/sh -ec 'tar -xf /dev/vdb -C /srv; exec python3 /srv/guest.py /srv/plan.json'
StandardOutput=journal+console
StandardError=journal+console

[Install]
WantedBy=default.target
"""

# Runs inside the new root file system, without a network.
CUSTOMIZE = f"""\
set -eu
printf '%s\\n' {" ".join(INITRAMFS)} >>/etc/initramfs-tools/modules
printf 'MODULES=list\\n' >/etc/initramfs-tools/conf.d/modules
update-initramfs -u
systemctl enable sandboxed-tools-vm.service
systemctl mask apt-daily.timer apt-daily-upgrade.timer getty@tty1.service
echo sandbox-vm >/etc/hostname
printf '127.0.0.1 localhost sandbox-vm\\n::1 localhost\\n' >/etc/hosts
python3 -m venv /opt/venv
/opt/venv/bin/pip install --no-index --no-deps /opt/wheels/*.whl
/opt/venv/bin/pip check
rm -r /opt/wheels /root/customize
"""

# $1 is a folder with root.tar, $2 the size of the disk.
MAKE_DISK = """\
mkdir "$1/root"
tar -xf "$1/root.tar" -C "$1/root" --exclude='./dev/*'
rm "$1/root.tar"
cp "$1"/root/boot/vmlinuz-* "$1/vmlinuz"
cp "$1"/root/boot/initrd.img-* "$1/initrd"
truncate -s "$2" "$1/disk"
mke2fs -q -t ext4 -d "$1/root" "$1/disk"
rm -rf "$1/root"
"""


@dataclass(frozen=True, slots=True)
class RootDisk:
    """A disk that boots, and the kernel and first file system to boot it with."""

    disk: Path
    kernel: Path
    initrd: Path


def requirements(pyproject: str) -> tuple[str, ...]:
    """What the project needs to run, and what the tests in the guest need, as ``pip`` takes it."""
    project = tomllib.loads(pyproject)["project"]
    tests = [
        requirement
        for requirement in project["optional-dependencies"]["test"]
        if requirement.partition(">")[0] in TEST_REQUIREMENTS
    ]
    return (*project["dependencies"], *tests)


def root_key(wanted: tuple[str, ...]) -> str:
    """Twelve hex digits over everything that the disk is made from."""
    parts = (SUITE, PYTHON, PACKAGES, DISK_BYTES, UNIT, CUSTOMIZE, MAKE_DISK, wanted)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def ensure_root_disk(*, rebuild: bool, progress: Progress) -> RootDisk:
    """The root disk of this checkout, made when there is none yet; older ones are removed.

    Blocks for some minutes when it has to be made.

    Raises:
        Failed: a program that makes it failed or took too long.
    """
    wanted = requirements((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    folder = VM_FOLDER / f"root-{root_key(wanted)}"
    if rebuild or not folder.is_dir():
        VM_FOLDER.mkdir(exist_ok=True)
        for old in VM_FOLDER.glob("root-*"):
            shutil.rmtree(old)
        with TemporaryDirectory(prefix="making-", dir=VM_FOLDER) as made:
            _make(Path(made), wanted, progress)
            finished = Path(made) / "finished"
            finished.mkdir()
            for name in ("disk", "vmlinuz", "initrd"):
                (Path(made) / name).rename(finished / name)
            finished.rename(folder)
    return RootDisk(folder / "disk", folder / "vmlinuz", folder / "initrd")


def _make(folder: Path, wanted: tuple[str, ...], progress: Progress) -> None:
    progress.step(f"fetching the Python packages for Python {PYTHON}")
    _fetch_wheels(folder / "wheels", wanted, progress)
    (folder / "sandboxed-tools-vm.service").write_text(UNIT, encoding="utf-8")
    (folder / "customize").write_text(CUSTOMIZE, encoding="utf-8")
    progress.step(f"making a root file system of Debian {SUITE} (some minutes)")
    hooks = (
        _copy("copy-in", folder / "wheels", "/opt"),
        _copy("copy-in", folder / "sandboxed-tools-vm.service", "/etc/systemd/system"),
        _copy("copy-in", folder / "customize", "/root"),
        'chroot "$1" sh /root/customize',
    )
    run(
        ["mmdebstrap", "--variant=minbase", "--components=main"]
        + [f"--include={','.join(PACKAGES)}", "--dpkgopt=path-exclude=/usr/share/locale/*"]
        + [f"--customize-hook={hook}" for hook in hooks]
        + [SUITE, str(folder / "root.tar")],
        deadline_s=MAKE_DEADLINE_S,
        progress=progress,
    )
    progress.step("making the root disk")
    run(
        [*user_namespace(), "sh", "-ec", MAKE_DISK, "disk", str(folder), str(DISK_BYTES)],
        deadline_s=MAKE_DEADLINE_S,
        progress=progress,
    )


def _copy(how: str, source: Path, target: str) -> str:
    """One of mmdebstrap's own hooks, which carry files in whatever user namespace it works in."""
    return f"{how} {shlex.quote(str(source))} {target}"


def _fetch_wheels(folder: Path, wanted: tuple[str, ...], progress: Progress) -> None:
    """Wheels for the guest's Python, by this environment's pip and from where it always fetches."""
    platforms = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64")
    run(
        [sys.executable, "-m", "pip", "download", "--only-binary=:all:", "-d", str(folder)]
        + [f"--python-version={PYTHON}", "--implementation=cp"]
        + [f"--abi={abi}" for abi in (f"cp{PYTHON.replace('.', '')}", "abi3", "none")]
        + [f"--platform={platform}" for platform in platforms]
        + list(wanted),
        deadline_s=WHEELS_DEADLINE_S,
        progress=progress,
    )
