"""Building the images of ours: from Debian's slim image, or from Debian's packages alone.

Every wait on the engine has a deadline for silence: a registry behind a firewall that drops packets
would otherwise hold the build for minutes.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from docker.auth import get_config_header, resolve_repository_name
from docker.errors import APIError, BuildError, DockerException
from requests.exceptions import RequestException

from sandboxed_tools.errors import EngineFault, ImageUnavailable
from sandboxed_tools.sandbox.docker.image_rootfs import ROOTFS_IMAGE, ensure_rootfs, rootfs_tag
from sandboxed_tools.sandbox.docker.images import (
    BASE_IMAGE,
    BASE_NAME_LABEL,
    LAUNCHER_IMAGE,
    REVISION_LABEL,
    ImageState,
    image_exists,
    image_folder,
    image_revision,
    image_tag,
    list_images,
)
from sandboxed_tools.sandbox.docker.progress import Progress, SilentProgress

if TYPE_CHECKING:
    import docker

    from sandboxed_tools.sandbox.docker.engine import Engine

__all__ = [
    "DEFAULT_BASE",
    "BuildReport",
    "add_folder",
    "build_from_context",
    "build_images",
    "pull_image",
]

DEFAULT_BASE = "debian:bookworm-slim"
BUILD_SILENCE_S = 900.0
PULL_SILENCE_S = 20.0
TAIL_LINES = 40
PROXY_VARIABLES = ("http_proxy", "https_proxy", "no_proxy")


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The images as they are now, which of them were built by this run, and from what."""

    images: tuple[ImageState, ...]
    built: tuple[str, ...]
    base: str


def build_images(
    engine: Engine,
    *,
    base: str | None = None,
    rebuild: bool = False,
    progress: Progress | None = None,
    pull_silence_s: float = PULL_SILENCE_S,
) -> BuildReport:
    """Build what is missing; an image that is there in this version is left alone. Blocking.

    ``base`` names what to build from and is then the only choice. Without it: the official slim
    image when the engine has it or a registry answers within ``pull_silence_s`` seconds, else a
    root file system made out of Debian's packages.

    Raises:
        ImageUnavailable: no base can be had, or the build failed (the end of its log is in
            ``operator_detail``).
        EngineFault: the engine did not answer.
    """
    progress = progress or SilentProgress()
    api = engine.api(timeout_s=60.0)
    try:
        missing = [
            image.name
            for image in list_images(api)
            if rebuild
            or image.state != "ready"
            or (base is not None and image.name == BASE_IMAGE and image.base != base)
        ]
        chosen = ""
        if missing:
            chosen = _choose_base(
                api, wanted=base, progress=progress, silence_s=pull_silence_s, rebuild=rebuild
            )
            for name in missing:
                _build(api, name, base=chosen, rebuild=rebuild, progress=progress)
        return BuildReport(list_images(api), tuple(missing), chosen)
    finally:
        api.close()


def _choose_base(
    api: docker.APIClient,
    *,
    wanted: str | None,
    progress: Progress,
    silence_s: float,
    rebuild: bool,
) -> str:
    reference = wanted or DEFAULT_BASE
    if wanted is not None and wanted.startswith(f"{ROOTFS_IMAGE}:"):
        return ensure_rootfs(api, rebuild=rebuild, progress=progress)
    if not rebuild and image_exists(api, reference):
        return reference
    # A root file system that was made before is nearer than a registry that did not answer then.
    if wanted is None and not rebuild and image_exists(api, rootfs_tag()):
        return rootfs_tag()
    progress.step(f"asking the registry for {reference}")
    try:
        pull_image(api, reference, silence_s=silence_s, progress=progress)
    except ImageUnavailable:
        if image_exists(api, reference):
            return reference
        if wanted is not None:
            raise
        return ensure_rootfs(api, rebuild=rebuild, progress=progress)
    return reference


def pull_image(
    api: docker.APIClient, reference: str, *, silence_s: float, progress: Progress
) -> None:
    """Have the engine pull an image. Ends when nothing was heard for ``silence_s`` seconds.

    Raises:
        ImageUnavailable: no registry answers, or it does not have the image.
    """
    repository, _, tag = reference.rpartition(":")
    if "/" in tag or not repository:
        repository, tag = reference, "latest"
    registry, _ = resolve_repository_name(repository)
    header = get_config_header(api, registry)
    try:
        for event in _events(
            api,
            "/images/create",
            params={"fromImage": repository, "tag": tag},
            headers={"X-Registry-Auth": header.decode("ascii")} if header else {},
            silence_s=silence_s,
        ):
            if "error" in event:
                raise ImageUnavailable(
                    f"the image {reference} cannot be pulled",
                    operator_detail=str(event["error"]),
                )
            progress.line(f"{event.get('id', '')} {event.get('status', '')}")
    except (DockerException, RequestException, OSError, ValueError) as error:
        raise ImageUnavailable(
            f"no registry gives out the image {reference}", operator_detail=str(error)
        ) from error


def _events(
    api: docker.APIClient,
    path: str,
    *,
    params: Mapping[str, str],
    headers: Mapping[str, str],
    silence_s: float,
) -> Iterator[dict[str, Any]]:
    """The events of one long request. docker-py's own ``pull`` waits without any deadline."""
    with api.post(
        f"{api.base_url}/v{api.api_version}{path}",
        params=params,
        headers=headers,
        stream=True,
        timeout=(PULL_SILENCE_S, silence_s),
    ) as response:
        if response.status_code >= 400:
            raise DockerException(response.text[:2000])
        for line in response.iter_lines():
            event = json.loads(line) if line else None
            if isinstance(event, dict):
                yield event


def _build(
    api: docker.APIClient, name: str, *, base: str, rebuild: bool, progress: Progress
) -> None:
    arguments = {
        "BASE": base,
        **({"LAUNCHER": image_tag(LAUNCHER_IMAGE)} if name == BASE_IMAGE else {}),
    }
    with _context(name) as context:
        build_from_context(
            api,
            name,
            context,
            base=base,
            arguments=arguments,
            rebuild=rebuild,
            progress=progress,
        )


def build_from_context(
    api: docker.APIClient,
    name: str,
    context: IO[bytes],
    *,
    base: str,
    arguments: Mapping[str, str],
    rebuild: bool,
    progress: Progress,
) -> None:
    """Build an image of ours from a tar. Blocking.

    Raises:
        ImageUnavailable: the build failed; the end of its log is in ``operator_detail``.
        EngineFault: the engine did not answer.
    """
    tag = image_tag(name)
    progress.step(f"building {tag} from {base}")
    # Predefined arguments: apt needs them, and they do not stay in the image.
    proxies = {key: os.environ[key] for key in PROXY_VARIABLES if os.environ.get(key)}
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    try:
        events = api.build(
            fileobj=context,
            custom_context=True,
            tag=tag,
            buildargs={**arguments, **proxies},
            labels={REVISION_LABEL: image_revision(name), BASE_NAME_LABEL: base},
            rm=True,
            forcerm=True,
            nocache=rebuild,
            decode=True,
            timeout=BUILD_SILENCE_S,  # type: ignore[arg-type]
            use_config_proxy=False,
        )
        _follow(events, tail, progress)
        api.tag(tag, name, tag="latest")
    except BuildError as error:
        raise _failed(name, str(error), tail) from error
    except APIError as error:
        raise _failed(name, str(error.explanation or error), tail) from error
    except (DockerException, RequestException, OSError, ValueError) as error:
        raise EngineFault(
            f"the engine went away while it was building {name}", operator_detail=str(error)
        ) from error


def _follow(events: Iterable[Mapping[str, Any]], tail: deque[str], progress: Progress) -> None:
    """Read to the end, whatever comes: a stream that is left unread keeps its connection open."""
    error: str | None = None
    for event in events:
        error = str(event["error"]) if "error" in event else error
        for line in str(event.get("stream", "")).splitlines():
            if line.strip():
                tail.append(line[:1000])
                progress.line(line[:1000])
    if error is not None:
        raise BuildError(error, iter(()))


def _failed(name: str, reason: str, tail: deque[str]) -> ImageUnavailable:
    return ImageUnavailable(
        f"the image {name} could not be built: see the end of its log, then try "
        "'sandboxed-tools images build' again",
        operator_detail="\n".join([*tail, reason]),
    )


def _context(name: str) -> IO[bytes]:
    """The image's folder as a tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        add_folder(tar, name)
    buffer.seek(0)
    return buffer


def add_folder(tar: tarfile.TarFile, name: str) -> None:
    """Add an image's folder, with fixed times and owners so that the build cache holds."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if "__pycache__" in member.name:
            return None
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = 0
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        return member

    for path in sorted(image_folder(name).iterdir()):
        tar.add(path, arcname=path.name, filter=plain)
