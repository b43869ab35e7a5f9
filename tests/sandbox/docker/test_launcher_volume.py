"""The volume with the launcher for foreign images: one for each process, and never half a one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import docker
import pytest

from sandboxed_tools.sandbox.docker import cleanup, launcher_volume
from sandboxed_tools.sandbox.docker.clients import Clients
from sandboxed_tools.sandbox.docker.create import LAUNCHER_FOLDER
from sandboxed_tools.sandbox.docker.engine import Engine
from sandboxed_tools.sandbox.docker.launcher_volume import NAME_PREFIX, LauncherVolume

pytestmark = pytest.mark.engine


@pytest.fixture
def volume(engine: Engine, base_image: str) -> Iterator[LauncherVolume]:
    clients = Clients(engine)
    made = LauncherVolume(clients)
    yield made
    made.close()
    clients.close()


def listed(api: docker.APIClient) -> set[str]:
    return {
        item.name
        for item in cleanup.ps(api)
        if item.type == "volume" and item.name.startswith(NAME_PREFIX)
    }


def has_launcher(api: docker.APIClient, name: str, base_image: str) -> bool:
    """Whether the launcher in the volume runs: without a call it fails, and says how."""
    made = api.create_container_from_config(  # type: ignore[no-untyped-call]
        {
            "Image": base_image,
            "Entrypoint": [f"{LAUNCHER_FOLDER}/launcher"],
            "HostConfig": {
                "NetworkMode": "none",
                "Mounts": [
                    {
                        "Type": "volume",
                        "Source": name,
                        "Target": LAUNCHER_FOLDER,
                        "VolumeOptions": {"NoCopy": True},
                    }
                ],
            },
        },
        None,
    )["Id"]
    try:
        api.start(made)
        api.wait(made)
    except docker.errors.APIError:
        return False
    finally:
        api.remove_container(made, force=True)
    return True


def test_a_volume_is_filled_once_listed_and_removed_at_the_end(
    api: docker.APIClient, volume: LauncherVolume, base_image: str
) -> None:
    name = volume.name()
    assert name is not None
    assert volume.name() == name
    assert name in listed(api)
    assert has_launcher(api, name, base_image)
    volume.close()
    assert name not in listed(api)


def test_a_volume_that_was_pruned_is_made_anew_although_an_empty_one_has_its_name(
    api: docker.APIClient,
    volume: LauncherVolume,
    base_image: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launcher_volume, "FRESH_S", 0.0)
    pruned = volume.name()
    assert pruned is not None
    api.remove_volume(pruned)
    assert not has_launcher(api, pruned, base_image)  # which makes an empty one of that name
    try:
        name = volume.name()
        assert name not in (None, pruned)
        assert has_launcher(api, str(name), base_image)
    finally:
        volume.close()
        for left in {pruned} & {item["Name"] for item in api.volumes()["Volumes"] or []}:
            api.remove_volume(left)


def test_a_volume_that_a_killed_process_left_empty_is_not_used_and_is_cleaned_up(
    api: docker.APIClient, volume: LauncherVolume, base_image: str
) -> None:
    script = """
        import os, signal, docker
        from sandboxed_tools.sandbox.docker import find_engine
        from sandboxed_tools.sandbox.docker.clients import Clients
        from sandboxed_tools.sandbox.docker.launcher_volume import LauncherVolume
        make = docker.APIClient.create_volume
        def make_and_die(*args, **options):
            print(make(*args, **options)["Name"], flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        docker.APIClient.create_volume = make_and_die
        LauncherVolume(Clients(find_engine())).name()
    """
    killed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        check=False,
        timeout=60,
        env=dict(os.environ),
    )
    assert killed.returncode == -signal.SIGKILL
    left = killed.stdout.decode().strip()
    assert left in listed(api)
    name = volume.name()
    assert name not in (None, left)
    assert has_launcher(api, str(name), base_image)
    cleanup.gc(api)
    assert left not in listed(api)
    assert name in listed(api)
