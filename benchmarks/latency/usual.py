"""What people do today, with the same image and the same command."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable

import docker
from benchmarks.latency import names
from benchmarks.latency.command import ARGV, EXIT, TEXT
from benchmarks.latency.figures import Series

from sandboxed_tools.sandbox.docker.engine import Engine

__all__ = ["Usual"]

Way = tuple[Series, Callable[[], object]]


class Usual:
    """The ways, and the container that some of them keep."""

    def __init__(self, engine: Engine, image: str) -> None:
        self.image = image
        self.client = docker.DockerClient(base_url=engine.base_url, timeout=60)
        self.kept = self.client.containers.run(
            image, ["sleep", "3600"], entrypoint="", detach=True, network_mode="none", init=True
        )

    def ways(self) -> list[Way]:
        found: list[Way] = [
            (Series(names.DOCKER_RUN, "yes"), self.docker_run),
            (Series("docker SDK, containers.run", "yes"), self.sdk_run),
            (Series(names.BARE_SDK, "yes"), self.bare),
            (Series(names.DOCKER_EXEC, "no"), self.docker_exec),
            (Series("docker SDK, exec_run, a container that is kept", "no"), self.sdk_exec),
        ]
        bubblewrap = Series("bubblewrap on the host", "yes")
        if shutil.which("bwrap"):
            found.append((bubblewrap, self.bubblewrap))
        return found

    @staticmethod
    def missing() -> list[Series]:
        if shutil.which("bwrap"):
            return []
        return [Series("bubblewrap on the host", "yes", note="not installed")]

    def close(self) -> None:
        self.kept.remove(force=True)
        self.client.close()

    def docker_run(self) -> None:
        words = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "bash"]
        done = subprocess.run([*words, self.image, "-c", TEXT], capture_output=True, check=False)
        assert done.returncode == EXIT, done

    def sdk_run(self) -> None:
        with contextlib.suppress(docker.errors.ContainerError):  # raised for any exit code but 0
            self.client.containers.run(
                self.image, list(ARGV), entrypoint="", remove=True, network_mode="none"
            )

    def bare(self) -> None:
        """The least that a fresh container takes: create, start, wait, remove."""
        api = self.client.api
        config = api.create_host_config(network_mode="none")
        made = api.create_container(self.image, list(ARGV), entrypoint="", host_config=config)
        api.start(made["Id"])
        assert api.wait(made["Id"])["StatusCode"] == EXIT
        api.remove_container(made["Id"])

    def docker_exec(self) -> None:
        words = ["docker", "exec", str(self.kept.id), *ARGV]
        done = subprocess.run(words, capture_output=True, check=False)
        assert done.returncode == EXIT

    def sdk_exec(self) -> None:
        assert self.kept.exec_run(list(ARGV)).exit_code == EXIT

    @staticmethod
    def bubblewrap() -> None:
        words = ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "--die-with-parent"]
        done = subprocess.run([*words, *ARGV], capture_output=True, check=False)
        assert done.returncode == EXIT
