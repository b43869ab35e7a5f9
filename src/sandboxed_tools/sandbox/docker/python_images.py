"""Building the images with Python, on top of the base image."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

from sandboxed_tools.errors import ImageUnavailable
from sandboxed_tools.sandbox.docker.image_build import (
    PULL_SILENCE_S,
    add_folder,
    build_from_context,
    pull_image,
)
from sandboxed_tools.sandbox.docker.images import (
    BASE_IMAGE,
    DATA_IMAGE,
    PYTHON_IMAGE,
    ImageState,
    image_exists,
    image_tag,
    list_images,
)
from sandboxed_tools.sandbox.docker.progress import Progress, SilentProgress
from sandboxed_tools.sandbox.docker.python_context import MINOR, check_machine, python_context

if TYPE_CHECKING:
    import docker

    from sandboxed_tools.sandbox.docker.engine import Engine

__all__ = ["OFFICIAL_PYTHON", "build_python_images"]

OFFICIAL_PYTHON = f"python:{MINOR}-slim-bookworm"


def build_python_images(
    engine: Engine,
    *,
    data: bool = False,
    rebuild: bool = False,
    progress: Progress | None = None,
) -> tuple[ImageState, ...]:
    """Build the image of Python tools, and the one for ``data``, unless they are there. Blocking.

    The base image must be there. Python's minor version is the client's: the base image's own where
    it is that, else the official image's where the engine has it or a registry answers.

    Raises:
        ImageUnavailable: this Python cannot be had, the engine is of another kind of machine, or
            the build failed.
        EngineFault: the engine did not answer.
    """
    progress = progress or SilentProgress()
    names = (PYTHON_IMAGE, DATA_IMAGE) if data else (PYTHON_IMAGE,)
    api = engine.api(timeout_s=60.0)
    try:
        for state in list_images(api, names):
            if rebuild or state.state != "ready":
                _build(api, state.name, rebuild=rebuild, progress=progress)
        return list_images(api, names)
    finally:
        api.close()


def _build(api: docker.APIClient, name: str, *, rebuild: bool, progress: Progress) -> None:
    if name == DATA_IMAGE:
        arguments = {
            "BASE": image_tag(BASE_IMAGE),
            "PYTHON": image_tag(PYTHON_IMAGE),
            "MINOR": MINOR,
        }
        _build_once(api, name, arguments, rebuild=rebuild, progress=progress)
        return
    base = image_tag(BASE_IMAGE)
    if not image_exists(api, base):
        raise ImageUnavailable(
            "the base image is not on the engine: build it with 'sandboxed-tools images build'"
        )
    check_machine(str(api.version()["Arch"]))
    arguments = {"BASE": base, "PYTHON": base, "MINOR": MINOR}
    try:
        _build_once(api, name, arguments, rebuild=rebuild, progress=progress)
    except ImageUnavailable as error:
        if f"no python{MINOR} in this image" not in (error.operator_detail or ""):
            raise
        arguments["PYTHON"] = _official_python(api, progress=progress)
        _build_once(api, name, arguments, rebuild=rebuild, progress=progress)


def _official_python(api: docker.APIClient, *, progress: Progress) -> str:
    if image_exists(api, OFFICIAL_PYTHON):
        return OFFICIAL_PYTHON
    progress.step(f"asking the registry for {OFFICIAL_PYTHON}")
    try:
        pull_image(api, OFFICIAL_PYTHON, silence_s=PULL_SILENCE_S, progress=progress)
    except ImageUnavailable as error:
        raise ImageUnavailable(
            f"this program runs on Python {MINOR}, the base image has another, and no registry "
            f"gives out {OFFICIAL_PYTHON}: Python tools cannot be moved into a container here",
            operator_detail=error.operator_detail,
        ) from error
    return OFFICIAL_PYTHON


def _build_once(
    api: docker.APIClient,
    name: str,
    arguments: dict[str, str],
    *,
    rebuild: bool,
    progress: Progress,
) -> None:
    with io.BytesIO() as context:
        with tarfile.open(fileobj=context, mode="w") as tar:
            add_folder(tar, name)
            if name == PYTHON_IMAGE:
                for place, content in sorted(python_context().items()):
                    member = tarfile.TarInfo(f"site/{place}")
                    member.size, member.mode = len(content), 0o644
                    tar.addfile(member, io.BytesIO(content))
        context.seek(0)
        build_from_context(
            api,
            name,
            context,
            base=arguments["BASE"],
            arguments=arguments,
            rebuild=rebuild,
            progress=progress,
        )
