"""The images that calls run in: their names, their versions, and how a reference is resolved.

The version of an image of ours is a hash over everything in its folder (and in the folders it is
made from), so a changed Dockerfile is another tag, and building the same thing twice does nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from requests.exceptions import RequestException

from sandboxed_tools.errors import EngineFault, ImageUnavailable
from sandboxed_tools.sandbox.docker.faults import ODD_ANSWERS
from sandboxed_tools.sandbox.docker.image_policy import check_image
from sandboxed_tools.sandbox.docker.python_context import python_digest
from sandboxed_tools.tool.foreign_text import for_terminal

if TYPE_CHECKING:
    import docker

__all__ = [
    "BASE_IMAGE",
    "BASE_NAME_LABEL",
    "DATA_IMAGE",
    "EVERY_NAME",
    "IMAGE_NAMES",
    "LAUNCHER_IMAGE",
    "PYTHON_IMAGE",
    "REVISION_LABEL",
    "ImageState",
    "ResolvedImage",
    "image_exists",
    "image_folder",
    "image_revision",
    "image_tag",
    "list_images",
    "resolve_image",
]

BASE_IMAGE = "sandboxed-tools/base"
LAUNCHER_IMAGE = "sandboxed-tools/launcher"
PYTHON_IMAGE = "sandboxed-tools/python"
DATA_IMAGE = "sandboxed-tools/data"
IMAGE_NAMES = (LAUNCHER_IMAGE, BASE_IMAGE)
"""What every call needs."""

EVERY_NAME = (*IMAGE_NAMES, PYTHON_IMAGE, DATA_IMAGE)
_MADE_FROM = {
    LAUNCHER_IMAGE: (LAUNCHER_IMAGE,),
    BASE_IMAGE: (LAUNCHER_IMAGE, BASE_IMAGE),
    PYTHON_IMAGE: (LAUNCHER_IMAGE, BASE_IMAGE, PYTHON_IMAGE),
    DATA_IMAGE: (LAUNCHER_IMAGE, BASE_IMAGE, PYTHON_IMAGE, DATA_IMAGE),
}
BUILD_STEP = "build it with 'sandboxed-tools images build'"

# Not with our own label prefix: containers inherit the labels of their image.
REVISION_LABEL = "org.opencontainers.image.revision"
BASE_NAME_LABEL = "org.opencontainers.image.base.name"


@dataclass(frozen=True, slots=True)
class ResolvedImage:
    """An image as it is on the engine now, named by its id: a tag may move, an id cannot.

    Attributes:
        reference: what was asked for; ``id``: ``sha256:…``.
        ours: built from this package's own folders, so its launcher is ours and its in-band
            reports can be used for budgets.
        has_launcher: the launcher is in the image itself; otherwise it comes in a volume.
        env: the image's variables. They are part of the container's configuration, never of the
            command's environment, which is exactly what the call gives.
    """

    reference: str
    id: str
    ours: bool
    has_launcher: bool
    architecture: str
    size_bytes: int
    env: tuple[tuple[str, str], ...]
    user: str
    working_dir: str
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImageState:
    """One image of ours on one engine. ``state``: ``ready``, ``outdated`` (only other versions
    are there), or ``missing``."""

    name: str
    tag: str
    state: Literal["ready", "outdated", "missing"]
    id: str = ""
    size_bytes: int = 0
    base: str = ""
    others: tuple[str, ...] = ()


def image_folder(name: str) -> Path:
    """The folder that an image of ours is built from, in a wheel and in a checkout alike.

    Raises:
        ImageUnavailable: this installation carries no such folder.
    """
    short = name.removeprefix("sandboxed-tools/")
    folder = _images_root() / short
    if not folder.is_dir():
        raise ImageUnavailable(
            f"this installation carries no folder for the image {name}: install the package again",
            operator_detail=f"looked for {folder}",
        )
    return folder


def _images_root() -> Path:
    packaged = Path(str(resources.files("sandboxed_tools"))) / "images"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[4] / "images"


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        for name in sorted(names):
            yield Path(parent) / name


def image_revision(name: str) -> str:
    """Twelve hex digits over the content of the image's folder, and of those it is made from.

    Names, execute bits and bytes count; times and owners do not.

    Raises:
        ImageUnavailable: this installation carries no such folder.
    """
    digest = hashlib.sha256()
    parts = _MADE_FROM.get(name, (name,))
    if PYTHON_IMAGE in parts:
        digest.update(python_digest().encode("ascii"))
    for part in parts:
        folder = image_folder(part)
        for path in _files(folder):
            content = path.read_bytes()
            is_executable = bool(path.stat().st_mode & 0o100)
            place = f"{part}/{path.relative_to(folder)}"
            head = f"{len(place)} {place} {is_executable} {len(content)}\n"
            digest.update(head.encode("utf-8", "surrogateescape") + content)
    return digest.hexdigest()[:12]


def image_tag(name: str) -> str:
    """The full reference of this version of an image of ours: ``sandboxed-tools/base:0a1b…``."""
    return f"{name}:{image_revision(name)}"


def _short_name(reference: str) -> str | None:
    """The name of the image of ours that ``reference`` asks for without a version, if any."""
    name = reference.removesuffix(":latest")
    return name if name in EVERY_NAME else None


def _inspect(api: docker.APIClient, reference: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = api.inspect_image(reference)  # type: ignore[no-untyped-call]
    except (ImageNotFound, NotFound):
        return None
    except APIError as error:
        # A malformed reference is the caller's mistake, whatever the engine calls it.
        if error.response is not None and error.response.status_code in {400, 404}:
            return None
        raise EngineFault(
            "the engine could not say what the image is: see 'sandboxed-tools doctor'",
            operator_detail=str(error),
        ) from error
    except (DockerException, RequestException, OSError, ValueError, RecursionError) as error:
        raise EngineFault(
            "the engine went away while it was asked for the image",
            operator_detail=str(error),
        ) from error
    return found


def image_exists(api: docker.APIClient, reference: str) -> bool:
    """Whether the engine has an image under exactly this reference.

    Raises:
        EngineFault: the engine did not answer.
    """
    return _inspect(api, reference) is not None


def resolve_image(api: docker.APIClient, reference: str) -> ResolvedImage:
    """Find an image on the engine, and check that it may be used. Nothing is pulled or built.

    ``sandboxed-tools/base`` without a version means exactly the version of this package.

    Raises:
        ImageUnavailable: it is not there; the message says how to get it.
        ImageRefused: its configuration would weaken the sandbox.
        EngineFault: the engine did not answer.
    """
    name = _short_name(reference)
    wanted = image_tag(name) if name else reference
    inspected = _inspect(api, wanted) if _is_plausible(wanted) else None
    if inspected is None:
        shown = for_terminal(reference, one_line=True)
        step = BUILD_STEP if name else f"get it with 'docker pull {shown}'"
        raise ImageUnavailable(
            f"the image {shown!r} is not on the engine: {step}", operator_detail=wanted
        )
    try:
        return _resolved(reference, wanted, inspected)
    except ODD_ANSWERS as error:
        raise EngineFault(
            "the engine's answer about the image makes no sense: see 'sandboxed-tools doctor'",
            operator_detail=repr(error),
        ) from error


def _is_plausible(reference: str) -> bool:
    # An id or a name goes into the path of an HTTP request.
    return (
        0 < len(reference) <= 512
        and reference.isascii()
        and reference.isprintable()
        and not set(reference) & set(" ?#%\\")
        and ".." not in reference
    )


def _resolved(reference: str, wanted: str, inspected: dict[str, Any]) -> ResolvedImage:
    config = inspected.get("Config") or {}
    ours = _is_ours(wanted, config)
    check_image(inspected, reference=reference)
    pairs = (str(entry).partition("=") for entry in config.get("Env") or ())
    return ResolvedImage(
        reference=reference,
        id=str(inspected["Id"]),
        ours=ours,
        has_launcher=ours,
        architecture=str(inspected.get("Architecture", "")),
        size_bytes=int(inspected.get("Size") or 0),
        env=tuple((name, value) for name, _, value in pairs),
        user=str(config.get("User") or ""),
        working_dir=str(config.get("WorkingDir") or "/"),
        entrypoint=tuple(map(str, config.get("Entrypoint") or ())),
        cmd=tuple(map(str, config.get("Cmd") or ())),
    )


def _is_ours(wanted: str, config: dict[str, Any]) -> bool:
    """Whether it is this package's own build: its name, its version, and its version label.

    Whoever may write images on the engine could forge all three; they are root there already.
    """
    name, _, tag = wanted.rpartition(":")
    if name not in EVERY_NAME:
        return False
    labels = config.get("Labels") or {}
    return bool(tag == image_revision(name) == labels.get(REVISION_LABEL))


def list_images(
    api: docker.APIClient, names: tuple[str, ...] = IMAGE_NAMES
) -> tuple[ImageState, ...]:
    """These images of ours and whether this version of each is on the engine.

    Raises:
        EngineFault: the engine did not answer.
        ImageUnavailable: this installation carries no image folders.
    """
    return tuple(_state(api, name) for name in names)


def _state(api: docker.APIClient, name: str) -> ImageState:
    tag = image_tag(name)
    inspected = _inspect(api, tag)
    try:
        found = api.images(name=name)
    except (DockerException, RequestException, OSError) as error:
        raise EngineFault("the engine cannot list images", operator_detail=str(error)) from error
    every = {str(t) for image in found for t in image.get("RepoTags") or ()}
    others = tuple(sorted(every - {tag, f"{name}:latest"}))
    if inspected is None:
        return ImageState(name, tag, "outdated" if others else "missing", others=others)
    labels = (inspected.get("Config") or {}).get("Labels") or {}
    return ImageState(
        name,
        tag,
        "ready",
        id=str(inspected["Id"]),
        size_bytes=int(inspected.get("Size") or 0),
        base=str(labels.get(BASE_NAME_LABEL, "")),
        others=others,
    )
