"""The one sandbox that all tests of a process share, and the images that they ask for."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anyio.from_thread import BlockingPortal, start_blocking_portal

from sandboxed_tools.errors import EngineFault, ImageUnavailable
from sandboxed_tools.sandbox.contract import SandboxSpec
from sandboxed_tools.sandbox.docker import DockerSandbox, find_engine
from sandboxed_tools.sandbox.docker.carrier import DockerCarrier
from sandboxed_tools.sandbox.docker.cleanup import ps
from sandboxed_tools.sandbox.docker.image_build import build_images
from sandboxed_tools.sandbox.docker.images import BASE_IMAGE, image_exists
from sandboxed_tools.sandbox.docker.owner import Owner
from sandboxed_tools.sandbox.docker.sight import path_question
from sandboxed_tools.tool import Command, ExecResult
from sandboxed_tools.tool.state import state_dir
from sandboxed_tools.workspace import WorkspaceViews

if TYPE_CHECKING:
    import docker

    from sandboxed_tools.sandbox.docker.engine import Engine

__all__ = ["Backend"]

IMAGE_PREFIX = "sandboxed-tools-test/"
LEAK_DEADLINE_S = 20.0
BUILD_DEADLINE_S = 900.0
MAX_CONTEXT_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Backend:
    """The engine as tests use it. ``image`` is what commands run in unless a test says more."""

    engine: Engine
    sandbox: DockerSandbox
    image: str
    _portal: BlockingPortal
    _stack: ExitStack

    @classmethod
    def open(cls, *, image: str) -> Backend:
        """Find the engine and have the image; the base image is built when it is missing.

        Raises:
            EngineNotFound, EngineForbidden, ImageUnavailable: with what to do.
        """
        engine = find_engine()
        if image == BASE_IMAGE:
            with _one_at_a_time():
                build_images(engine)
        with ExitStack() as stack:
            views = WorkspaceViews(engine_sees=path_question(engine), carrier=DockerCarrier(engine))
            sandbox = DockerSandbox(engine, views=views)
            stack.callback(sandbox.close)
            # A loop in a thread of its own: tests may have a loop running in theirs.
            portal = stack.enter_context(start_blocking_portal("asyncio"))
            return cls(engine, sandbox, image, portal, stack.pop_all())

    def run(self, spec: SandboxSpec, command: Command) -> ExecResult:
        """Run a command and wait for it; an interruption of the wait ends the command.

        Raises:
            SandboxUnavailable: the sandbox itself failed.
        """
        future = self._portal.start_task_soon(self.sandbox.run, spec, command)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def close(self) -> list[str]:
        """Release everything; returns what this process has left on the engine all the same."""
        self._stack.close()
        deadline = time.monotonic() + LEAK_DEADLINE_S
        while leaks := self._leaks():
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        return leaks

    def _leaks(self) -> list[str]:
        me = Owner.current()
        with _client(self.engine) as api:
            found = ps(api)
        return [
            f"{item.type} {item.name or item.id[:12]} {item.state}".rstrip()
            for item in found
            if item.ownership is not None and item.ownership.owner == me
        ]

    def build(
        self,
        folder: str | os.PathLike[str],
        *,
        dockerfile: str = "Dockerfile",
        arguments: Mapping[str, str] | None = None,
    ) -> str:
        """The image of a folder, built when this content has not been built yet. Blocking.

        It stays on the engine for the next run. ``arguments`` are the build's, and count as
        content; its base images do not: name them by digest where that matters.

        Raises:
            ImageUnavailable: there is no such Dockerfile, or the build failed.
        """
        place = Path(folder).resolve()
        if not (place / dockerfile).is_file():
            raise ImageUnavailable(f"there is no {dockerfile} in {place.name}")
        given = dict(arguments or {})
        tag = f"{IMAGE_PREFIX}{_name(place)}:{_digest(place, dockerfile, given)}"
        with _one_at_a_time(), _client(self.engine, timeout_s=BUILD_DEADLINE_S) as api:
            if not image_exists(api, tag):
                _build(api, place, tag=tag, dockerfile=dockerfile, arguments=given)
        return tag


@contextmanager
def _client(engine: Engine, *, timeout_s: float = 60.0) -> Iterator[docker.APIClient]:
    api = engine.api(timeout_s=timeout_s)
    try:
        yield api
    finally:
        api.close()


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Keep the workers of one machine from building the same thing side by side."""
    descriptor = os.open(state_dir() / "test-images.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + BUILD_DEADLINE_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ImageUnavailable(
                        "another process has been building for too long"
                    ) from None
                time.sleep(0.1)
        yield
    finally:
        os.close(descriptor)


def _build(
    api: docker.APIClient,
    folder: Path,
    *,
    tag: str,
    dockerfile: str,
    arguments: Mapping[str, str],
) -> None:
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    log: list[str] = []
    try:
        for event in api.build(
            path=str(folder),
            dockerfile=dockerfile,
            tag=tag,
            buildargs=dict(arguments),
            rm=True,
            forcerm=True,
            decode=True,
        ):
            log.append(str(event.get("stream") or event.get("error") or ""))
            if "error" in event:
                raise ImageUnavailable(
                    f"the image {tag} could not be built",
                    operator_detail="".join(log)[-8000:],
                )
    except (DockerException, RequestException, OSError, ValueError) as error:
        raise EngineFault(
            "the engine failed while building an image", operator_detail=str(error)
        ) from error


def _name(folder: Path) -> str:
    return re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-") or "image"


def _digest(folder: Path, dockerfile: str, arguments: Mapping[str, str]) -> str:
    """A hash over everything that the engine is sent; unambiguous, so each part has its length."""
    digest = hashlib.sha256()

    def add(part: bytes) -> None:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)

    for text in (dockerfile, *(item for pair in sorted(arguments.items()) for item in pair)):
        add(text.encode())
    total = 0
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        add(os.fsencode(path.relative_to(folder)))
        add(str(info.st_mode).encode())
        if path.is_symlink():
            add(os.fsencode(os.readlink(path)))
        elif path.is_file():
            total += info.st_size
            if total > MAX_CONTEXT_BYTES:
                raise ImageUnavailable(f"{folder.name} is too large to build an image from")
            add(path.read_bytes())
    return digest.hexdigest()[:16]
