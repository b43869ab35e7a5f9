"""A root file system made out of Debian's packages, for machines that no registry answers.

mmdebstrap(1) resolves and verifies the packages with apt and Debian's archive key, as root or in a
user namespace. What it makes is imported as an image that the others are built from.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from docker.errors import DockerException
from requests.exceptions import RequestException

from sandboxed_tools.errors import EngineFault, ImageUnavailable
from sandboxed_tools.sandbox.docker.host_process import run_program
from sandboxed_tools.sandbox.docker.images import REVISION_LABEL, image_exists, image_folder
from sandboxed_tools.sandbox.docker.packages import install_packages
from sandboxed_tools.sandbox.docker.progress import Progress

if TYPE_CHECKING:
    import docker

__all__ = ["ROOTFS_IMAGE", "ensure_rootfs", "rootfs_tag"]

ROOTFS_IMAGE = "sandboxed-tools/rootfs"
MAKE_DEADLINE_S = 1800.0
IMPORT_SILENCE_S = 300.0


def rootfs_tag() -> str:
    """The reference of the root file system that this package's arguments describe."""
    content = (image_folder(ROOTFS_IMAGE) / "mmdebstrap.args").read_bytes()
    return f"{ROOTFS_IMAGE}:{hashlib.sha256(content).hexdigest()[:12]}"


def ensure_rootfs(api: docker.APIClient, *, rebuild: bool, progress: Progress) -> str:
    """Make and import the root file system unless the engine has it; returns its reference.

    Blocks for up to half an hour.

    Raises:
        ImageUnavailable: mmdebstrap is missing and may not be installed, or it failed.
        EngineFault: the engine did not take the result.
    """
    tag = rootfs_tag()
    if not rebuild and image_exists(api, tag):
        return tag
    program = _mmdebstrap(progress)
    with tempfile.TemporaryDirectory(prefix="sandboxed-tools-rootfs-") as folder:
        tar = Path(folder) / "rootfs.tar"
        _make(program, tar, progress=progress)
        progress.step(f"importing it as {tag}")
        _import(api, tar, tag)
    return tag


def _mmdebstrap(progress: Progress) -> str:
    detail = ""
    if (program := shutil.which("mmdebstrap")) is None:
        # The archive key is Debian's own package on Debian, and an extra one on Ubuntu.
        installed = install_packages(["mmdebstrap", "debian-archive-keyring"], progress=progress)
        program, detail = shutil.which("mmdebstrap"), installed.detail
    if program is None:
        raise ImageUnavailable(
            "no registry answers, and without mmdebstrap no root file system can be made here: "
            "install the package mmdebstrap, or pull debian:bookworm-slim from a registry",
            operator_detail=detail,
        )
    return program


def _arguments() -> list[str]:
    text = (image_folder(ROOTFS_IMAGE) / "mmdebstrap.args").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def _make(program: str, tar: Path, *, progress: Progress) -> None:
    progress.step("making a root file system from Debian's packages (about a minute)")
    # The positional order is SUITE TARGET; the suite is the last line of the arguments.
    argv = [program, *_arguments(), str(tar)]
    try:
        done = run_program(argv, deadline_s=MAKE_DEADLINE_S, on_line=progress.line)
    except OSError as error:
        raise ImageUnavailable(
            "mmdebstrap cannot be run: install the package mmdebstrap again",
            operator_detail=str(error),
        ) from error
    if not done.ok:
        raise ImageUnavailable(
            "no registry answers, and mmdebstrap could not make a root file system: "
            "check that a Debian mirror can be reached",
            operator_detail="\n".join(done.tail),
        )


def _import(api: docker.APIClient, tar: Path, tag: str) -> None:
    repository, _, version = tag.rpartition(":")
    try:
        with tar.open("rb") as file:
            # docker-py's own import waits without any deadline.
            response = api.post(
                f"{api.base_url}/v{api.api_version}/images/create",
                params={
                    "fromSrc": "-",
                    "repo": repository,
                    "tag": version,
                    "changes": [f"LABEL {REVISION_LABEL}={version}", 'CMD ["/bin/bash"]'],
                },
                headers={"Content-Type": "application/x-tar"},
                data=file,
                timeout=(IMPORT_SILENCE_S, IMPORT_SILENCE_S),
            )
    except (DockerException, RequestException, OSError) as error:
        raise EngineFault(
            "the engine did not take the root file system", operator_detail=str(error)
        ) from error
    if response.status_code >= 400 or '"error"' in response.text:
        raise EngineFault(
            "the engine did not take the root file system", operator_detail=response.text[:2000]
        )
