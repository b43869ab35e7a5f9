"""Names, versions, resolving and building of images, against the real engine."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import requests
from docker.errors import APIError, NotFound
from tests.sandbox.docker.own_image import built_image

from sandboxed_tools.errors import EngineFault, ImageRefused, ImageUnavailable
from sandboxed_tools.sandbox.docker import image_build, images
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.sandbox.docker.image_build import build_images, pull_image
from sandboxed_tools.sandbox.docker.image_rootfs import rootfs_tag
from sandboxed_tools.sandbox.docker.images import (
    BASE_IMAGE,
    IMAGE_NAMES,
    LAUNCHER_IMAGE,
    image_exists,
    image_folder,
    image_revision,
    image_tag,
    list_images,
    resolve_image,
)
from sandboxed_tools.sandbox.docker.owner import Owner
from sandboxed_tools.sandbox.docker.progress import SilentProgress

if TYPE_CHECKING:
    import docker

REGISTRY_FOLDER = Path(__file__).parents[2] / "registry"
TRIAL_COMMANDS = "bash find grep sed gawk git rg jq curl file tree unzip ps python3"


class Recorder:
    def __init__(self) -> None:
        self.steps: list[str] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def line(self, text: str) -> None: ...


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the image folders, with another content and so another version."""
    copy = tmp_path / "images"
    shutil.copytree(image_folder(BASE_IMAGE).parent, copy)
    (copy / "launcher" / "trial").write_text(uuid.uuid4().hex)
    monkeypatch.setattr(images, "_images_root", lambda: copy)
    return copy


@contextmanager
def removed_afterwards(api: docker.APIClient, *references: str) -> Iterator[None]:
    try:
        yield
    finally:
        for reference in references:
            try:
                api.remove_image(reference, force=True)
            except NotFound:
                continue


@contextmanager
def image_from(api: docker.APIClient, dockerfile: str) -> Iterator[str]:
    """Build a throw-away image from a Dockerfile without a context."""
    reference = f"sandboxed-tools-test/{uuid.uuid4().hex}:1"
    with built_image(api, reference, dockerfile):
        yield reference


def output_of(api: docker.APIClient, image: str, script: str) -> str:
    labels = Owner.current().labels(deadline_s=60, kind="test")
    container = api.create_container(
        image,
        ["bash", "-c", script],
        labels=labels,
        host_config=api.create_host_config(network_mode="none"),
    )["Id"]
    try:
        api.start(container)
        api.wait(container, timeout=60)
        return api.logs(container).decode()
    finally:
        api.remove_container(container, force=True, v=True)


def test_the_version_follows_content_and_execute_bits_but_not_times(own_folders: Path) -> None:
    dockerfile = own_folders / "base" / "Dockerfile"
    before = image_revision(BASE_IMAGE)
    os.utime(dockerfile, (1, 1))
    assert image_revision(BASE_IMAGE) == before
    dockerfile.chmod(0o755)
    executable = image_revision(BASE_IMAGE)
    dockerfile.write_text(dockerfile.read_text() + "# changed\n")
    assert len({before, executable, image_revision(BASE_IMAGE)}) == 3


def test_the_base_image_gets_a_new_version_with_a_new_launcher(own_folders: Path) -> None:
    before = image_revision(BASE_IMAGE)
    (own_folders / "launcher" / "trial").write_text("another")
    assert image_revision(BASE_IMAGE) != before


def test_an_installation_without_image_folders_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "_images_root", lambda: tmp_path)
    with pytest.raises(ImageUnavailable, match="install the package again"):
        image_tag(BASE_IMAGE)


@pytest.mark.engine
def test_building_what_is_there_does_nothing(engine: Engine, base_image: str) -> None:
    recorder = Recorder()
    report = build_images(engine, progress=recorder)
    assert report.built == ()
    assert recorder.steps == []
    assert [state.state for state in report.images] == ["ready"] * len(IMAGE_NAMES)


@pytest.mark.engine
def test_the_base_image_is_named_by_its_id_and_is_ours(
    api: docker.APIClient, base_image: str
) -> None:
    for reference in (BASE_IMAGE, f"{BASE_IMAGE}:latest", image_tag(BASE_IMAGE)):
        found = resolve_image(api, reference)
        assert found.id.startswith("sha256:")
        assert found.ours
        assert found.has_launcher
        assert found.user == "10000:10000"
        assert dict(found.env).keys() <= {"PATH"}


@pytest.mark.engine
def test_the_base_image_holds_its_tools_and_no_set_id_file(
    api: docker.APIClient, base_image: str
) -> None:
    script = (
        f"for c in {TRIAL_COMMANDS}; do command -v $c >/dev/null || echo missing $c; done;"
        "find / -xdev -perm /6000 2>/dev/null; stat -c '%a %u %n' /.sandboxed-tools/launcher;"
        "cat /.sandboxed-tools/launcher 2>&1 | head -c 200; id -u"
    )
    lines = output_of(api, resolve_image(api, base_image).id, script).splitlines()
    assert lines[0] == "111 0 /.sandboxed-tools/launcher"
    assert "Permission denied" in lines[1]
    assert lines[2] == "10000"


@pytest.mark.engine
@pytest.mark.parametrize(
    "reference",
    ["nobody/nothing:1", "", "UPPER", "a b", "../../containers/json", "x?y=1", "a#b", "-x", "ä"],
)
def test_an_image_that_is_not_there_is_unavailable_and_never_pulled(
    api: docker.APIClient, reference: str
) -> None:
    with pytest.raises(ImageUnavailable):
        resolve_image(api, reference)


@pytest.mark.engine
def test_another_version_of_ours_is_not_taken_instead(
    api: docker.APIClient, base_image: str, own_folders: Path
) -> None:
    with pytest.raises(ImageUnavailable, match="sandboxed-tools images build"):
        resolve_image(api, BASE_IMAGE)
    assert {state.state for state in list_images(api)} == {"outdated"}


@pytest.mark.engine
def test_a_foreign_image_under_our_name_is_not_ours(
    api: docker.APIClient, own_folders: Path
) -> None:
    tag = image_tag(BASE_IMAGE)
    with image_from(api, 'FROM scratch\nCMD ["/x"]\n') as reference:
        with removed_afterwards(api, tag):
            name, _, version = tag.rpartition(":")
            api.tag(reference, name, tag=version)
            assert resolve_image(api, BASE_IMAGE).ours is False


@pytest.mark.engine
@pytest.mark.parametrize(
    "line",
    ["VOLUME /data", "ENV LD_PRELOAD=/x.so", "ENV BASH_ENV=/x", "LABEL sandboxed-tools.pid=1"],
)
def test_a_real_image_that_would_weaken_the_sandbox_is_refused(
    api: docker.APIClient, base_image: str, line: str
) -> None:
    ours = image_tag(BASE_IMAGE)
    with image_from(api, f"FROM {ours}\nENV HARMLESS=1\n") as twin:
        assert resolve_image(api, twin).ours is False
    with image_from(api, f"FROM {ours}\n{line}\n") as reference:
        with pytest.raises(ImageRefused):
            resolve_image(api, reference)


@pytest.mark.engine
def test_a_failing_build_shows_the_end_of_its_log(engine: Engine, own_folders: Path) -> None:
    (own_folders / "launcher" / "Dockerfile").write_text(
        "ARG BASE\nFROM ${BASE}\nRUN echo the-last-words; exit 7\n"
    )
    with pytest.raises(ImageUnavailable, match="images build") as caught:
        build_images(engine, base=rootfs_tag_or_base(engine))
    assert "the-last-words" in str(caught.value.operator_detail)
    assert "7" in str(caught.value.operator_detail)


def rootfs_tag_or_base(engine: Engine) -> str:
    """What the base image on this engine was built from: there without a registry."""
    api = engine.api()
    try:
        wanted = {e["RepoTags"][0] for e in api.images(name="sandboxed-tools/rootfs")}
    finally:
        api.close()
    return rootfs_tag() if rootfs_tag() in wanted else image_build.DEFAULT_BASE


@pytest.mark.engine
def test_a_base_that_cannot_be_had_is_unavailable_and_nothing_else_is_used(
    engine: Engine, own_folders: Path
) -> None:
    # Port 1 (tcpmux) of loopback: nobody answers, at once.
    with pytest.raises(ImageUnavailable, match=r"127\.0\.0\.1:1/nothing"):
        build_images(engine, base="127.0.0.1:1/nothing:1")


def test_an_engine_that_vanishes_is_a_fault(tmp_path: Path, engine: Engine) -> None:
    import dataclasses

    from sandboxed_tools.sandbox.docker.endpoints import Endpoint

    gone = dataclasses.replace(engine, endpoint=Endpoint(f"unix://{tmp_path}/x", source="test"))
    with pytest.raises(EngineFault):
        build_images(gone)


@contextmanager
def registry(api: docker.APIClient, *, base: str) -> Iterator[str]:
    """Debian's docker-registry on loopback; yields its address."""
    image = f"sandboxed-tools-test/registry:{uuid.uuid4().hex}"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in sorted(REGISTRY_FOLDER.iterdir()):
            tar.add(path, arcname=path.name)
    buffer.seek(0)
    with removed_afterwards(api, image):
        arguments = {"BASE": base}
        events = api.build(
            fileobj=buffer,
            custom_context=True,
            tag=image,
            buildargs=arguments,
            rm=True,
            decode=True,
            timeout=600,
        )
        assert not [event for event in events if "error" in event]
        container = api.create_container(
            image,
            ports=[5000],
            labels=Owner.current().labels(deadline_s=600, kind="test"),
            host_config=api.create_host_config(port_bindings={5000: ("127.0.0.1", None)}),
        )["Id"]
        try:
            api.start(container)
            port = api.port(container, 5000)[0]["HostPort"]
            _wait_for_registry(f"127.0.0.1:{port}")
            yield f"127.0.0.1:{port}"
        finally:
            api.remove_container(container, force=True, v=True)


def _wait_for_registry(address: str) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            if requests.get(f"http://{address}/v2/", timeout=2).ok:
                return
        except requests.RequestException:
            pass
        assert time.monotonic() < deadline, "the registry did not answer in 30 s"
        time.sleep(0.1)


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_images_are_built_from_a_base_that_a_registry_gives_out(
    engine: Engine, api: docker.APIClient, base_image: str, own_folders: Path
) -> None:
    present = next(s.base for s in list_images_of_the_package(api) if s.name == LAUNCHER_IMAGE)
    with registry(api, base=present) as address:
        repository = f"{address}/library/debian"
        reference = f"{repository}:bookworm-slim"
        trials = (image_tag(BASE_IMAGE), image_tag(LAUNCHER_IMAGE), reference)
        with latest_kept(api), removed_afterwards(api, *trials):
            api.tag(present, repository, tag="bookworm-slim")
            pushed = list(api.push(repository, tag="bookworm-slim", stream=True, decode=True))
            assert not any("error" in event for event in pushed), pushed
            api.remove_image(reference)
            report = build_images(engine, base=reference)
            assert set(report.built) == set(IMAGE_NAMES)
            assert report.base == reference
            found = resolve_image(api, BASE_IMAGE)
            assert found.ours
            assert output_of(api, found.id, "rg --version").startswith("ripgrep")
            again = build_images(engine, base=reference)
            assert again.built == ()


@contextmanager
def latest_kept(api: docker.APIClient) -> Iterator[None]:
    """Put the names without a version back to where they were."""
    before = {
        name: api.inspect_image(name)["Id"]  # type: ignore[no-untyped-call]
        for name in IMAGE_NAMES
        if image_exists(api, name)
    }
    try:
        yield
    finally:
        for name, identity in before.items():
            api.tag(identity, name, tag="latest")


def list_images_of_the_package(api: docker.APIClient) -> tuple[images.ImageState, ...]:
    with pytest.MonkeyPatch.context() as patch:
        root = Path(images.__file__).parents[4] / "images"
        patch.setattr(images, "_images_root", lambda: root)
        return list_images(api)


@pytest.mark.engine
def test_a_registry_that_never_answers_is_given_up(api: docker.APIClient) -> None:
    import socket

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)
        port = silent.getsockname()[1]
        with pytest.raises(ImageUnavailable, match="no registry gives out"):
            pull_image(api, f"127.0.0.1:{port}/x:1", silence_s=0.5, progress=SilentProgress())


@pytest.mark.engine
def test_an_image_that_the_registry_does_not_have_is_unavailable(
    api: docker.APIClient, base_image: str
) -> None:
    with pytest.raises((ImageUnavailable, APIError)):
        pull_image(api, "127.0.0.1:1/x:1", silence_s=5, progress=SilentProgress())
