"""What is put into the machine at each start: the project, its tests, and the sandbox images.

Both are plain tar archives that the guest reads from a disk, so nothing has to be mounted.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.vm.places import CHECKOUT, VM_FOLDER
from tests.vm.programs import run

from sandboxed_tools.sandbox.docker.engine import find_engine
from sandboxed_tools.sandbox.docker.image_build import build_images
from sandboxed_tools.sandbox.docker.images import BASE_IMAGE, LAUNCHER_IMAGE, image_tag
from sandboxed_tools.sandbox.docker.progress import Progress

__all__ = ["ensure_images", "make_project_disk"]

BUILD_DEADLINE_S = 300.0
SAVE_SILENCE_S = 300.0


def make_project_disk(disk: Path, plan: list[dict[str, Any]], progress: Progress) -> None:
    """Build the project's wheel, and pack it with the tests and the plan into ``disk``.

    Raises:
        Failed: the wheel cannot be built.
    """
    progress.step("building the project's wheel")
    with TemporaryDirectory(prefix="wheel-", dir=disk.parent) as folder:
        run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
            deadline_s=BUILD_DEADLINE_S,
            progress=progress,
        )
        (wheel,) = Path(folder).glob("*.whl")
        with tarfile.open(disk, "w") as tar:
            # pip reads name and version out of a wheel's file name.
            tar.add(wheel, arcname=wheel.name, filter=_plain)
            tar.add(CHECKOUT / "tests", arcname="tests", filter=_plain)
            tar.add(CHECKOUT / "pyproject.toml", arcname="pyproject.toml", filter=_plain)
            tar.add(Path(__file__).with_name("guest.py"), arcname="guest.py", filter=_plain)
            _add_text(tar, "plan.json", json.dumps(plan))


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if "__pycache__" in member.name:
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode()
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def ensure_images(progress: Progress) -> Path:
    """The images that calls run in, as this machine's engine has them, saved once a version.

    Raises:
        SandboxedToolsError: no engine answers here, or an image cannot be built.
    """
    tags = [image_tag(name) for name in (LAUNCHER_IMAGE, BASE_IMAGE)]
    saved = VM_FOLDER / f"images-{tags[-1].rpartition(':')[2]}.tar"
    if saved.exists():
        return saved
    engine = find_engine()
    build_images(engine, progress=progress)
    progress.step("saving the sandbox images")
    VM_FOLDER.mkdir(exist_ok=True)
    for old in VM_FOLDER.glob("images-*"):
        old.unlink()
    api = engine.api(timeout_s=SAVE_SILENCE_S)
    unfinished = saved.with_suffix(".unfinished")
    try:
        # docker-py saves one image at a time, the engine several that share their layers.
        url = f"{api.base_url}/v{api.api_version}/images/get"
        with (
            api.get(url, params={"names": tags}, stream=True, timeout=SAVE_SILENCE_S) as answer,
            unfinished.open("wb") as file,
        ):
            answer.raise_for_status()
            for chunk in answer.iter_content(1 << 20):
                file.write(chunk)
    finally:
        api.close()
    unfinished.rename(saved)
    return saved
