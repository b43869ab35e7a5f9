"""A workspace of any owner, and a plain container that works on a view of it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandboxed_tools.tool.mounts import ContainerUser, Mount, View, WorkspaceMount
from sandboxed_tools.workspace.views import WorkspaceViews

if TYPE_CHECKING:
    import docker

STRANGER = ContainerUser(uid=0x70001234, gid=0x70001234)
WAIT_S = 60


@dataclass(frozen=True)
class Outcome:
    """How a script ended, and what it printed on both streams."""

    code: int
    output: str


@dataclass(frozen=True)
class PlainContainer:
    """Runs scripts in containers without privileges, made by the engine's own client."""

    api: docker.APIClient
    image: str
    labels: dict[str, str]

    def run(self, view: View, script: str, *, user: ContainerUser = STRANGER) -> Outcome:
        """Run ``script`` with bash on ``view``; the container is gone afterwards."""
        volumes = [self._volume(mount) for mount in view.mounts]
        mounts = [
            self._mount(mount, volume, target)
            for mount, volume in zip(view.mounts, volumes, strict=True)
            for target in mount.targets
        ]
        host = self.api.create_host_config(
            network_mode="none",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true"],
        )
        # The client's own Mount class has no word for a bind that is not recursive.
        host["Mounts"] = mounts
        made = self.api.create_container(
            self.image,
            ["-c", f"exec 2>&1\n{script}"],
            entrypoint=["bash"],
            user=f"{user.uid}:{user.gid}",
            working_dir=view.cwd,
            labels=self.labels,
            host_config=host,
        )
        try:
            self.api.start(made)
            code = self.api.wait(made, timeout=WAIT_S)["StatusCode"]
            output = self.api.logs(made).decode("utf-8", "surrogateescape")
            return Outcome(code=code, output=output)
        finally:
            self.api.remove_container(made, force=True)
            for volume in filter(None, volumes):
                self.api.remove_volume(volume, force=True)

    def _volume(self, mount: Mount) -> str:
        if mount.kind == "bind":
            return ""
        options = {"type": "overlay", "device": "overlay", "o": mount.overlay_options}
        made = self.api.create_volume(driver="local", driver_opts=options, labels=self.labels)
        return str(made["Name"])

    @staticmethod
    def _mount(mount: Mount, volume: str, target: str) -> dict[str, Any]:
        if mount.kind == "bind":
            return {
                "Type": "bind",
                "Source": mount.source,
                "Target": target,
                "ReadOnly": mount.read_only,
                "BindOptions": {"NonRecursive": True},
            }
        return {
            "Type": "volume",
            "Source": volume,
            "Target": target,
            "ReadOnly": False,
            "VolumeOptions": {"NoCopy": True},
        }


@pytest.fixture
def container(api: docker.APIClient, base_image: str) -> PlainContainer:
    from sandboxed_tools.sandbox.docker.owner import Owner

    labels = Owner.current().labels(deadline_s=300, kind="test")
    return PlainContainer(api=api, image=base_image, labels=labels)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder of this test alone, in which nothing may be left at the end."""
    folder = tmp_path / "state"
    monkeypatch.setenv("SANDBOXED_TOOLS_STATE_DIR", str(folder))
    yield folder
    assert left_in(folder) == []


def left_in(state: Path) -> list[str]:
    """What the views left in the state folder."""
    return [
        str(path.relative_to(state))
        for name in ("views", "spare-work")
        for path in ((state / name).iterdir() if (state / name).exists() else ())
    ]


@pytest.fixture
def views(state: Path) -> WorkspaceViews:
    return WorkspaceViews()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A small project of ours with private files."""
    root = tmp_path / "project"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "secret.txt").write_text("secret\n")
    (root / "secret.txt").chmod(0o600)
    (root / "src" / "main.py").write_text("print('hello')\n")
    (root / "src" / "deep" / "data.bin").write_bytes(bytes(range(256)) * 10)
    (root / "link").symlink_to("src/main.py")
    (root / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (root / "run.sh").chmod(0o755)
    os.link(root / "run.sh", root / "src" / "hard")
    root.chmod(0o700)
    return root


def give_to(root: Path, owner: int) -> None:
    """Make everything in a tree belong to ``owner``."""
    for path in (root, *root.rglob("*")):
        os.chown(path, owner, owner, follow_symlinks=False)


def picture(root: Path) -> dict[str, tuple[object, ...]]:
    """Everything about a tree that must not change: kinds, owners, modes, times and contents."""
    return {os.fsdecode(os.path.relpath(path, root)): _facts(path) for path in [root, *_all(root)]}


def _all(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        yield from (Path(folder, name) for name in (*folders, *files))


def _facts(path: Path) -> tuple[object, ...]:
    info = path.lstat()
    content: object = None
    if stat.S_ISREG(info.st_mode):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    elif stat.S_ISLNK(info.st_mode):
        content = os.readlink(path)
    return (info.st_mode, info.st_uid, info.st_gid, info.st_mtime_ns, info.st_nlink, content)


OpenView = Callable[..., View]


@pytest.fixture
def open_view(views: WorkspaceViews) -> Iterator[OpenView]:
    """Opens views that are closed at the end of the test."""
    opened: list[View] = []

    def make(source: Path, user: ContainerUser = STRANGER, **choices: Any) -> View:
        view = views.open(WorkspaceMount(source=source, **choices), user)
        opened.append(view)
        return view

    yield make
    for view in opened:
        view.close()
