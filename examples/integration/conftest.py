"""pytest-docker brings the services up, with whichever compose there is; a sandbox joins them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_docker.plugin import Services

    from sandboxed_tools.testing.runner import SandboxRunner

HERE = Path(__file__).parent

collect_ignore = ["untrusted"]  # or the pytest on this host would run it, which is the whole point


@pytest.fixture(scope="session")
def docker_compose_command() -> str:
    """Compose as the engine's plug-in, or as the program of its own that older systems have."""
    found = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    return "docker compose" if found.returncode == 0 else "docker-compose"


@pytest.fixture(scope="session")
def docker_setup() -> str:
    return "up --build -d"  # the older compose has no --wait


@pytest.fixture(scope="session")
def docker_compose_file() -> str:
    return str(HERE / "compose.yaml")


@pytest.fixture
def suite(
    request: pytest.FixtureRequest, docker_services: Services, docker_compose_project_name: str
) -> SandboxRunner:
    """A sandbox on the services of this run, whose project has a name of its own."""
    network = f"compose:{docker_compose_project_name}/back"
    request.applymarker(pytest.mark.sandbox(network=network, memory="256m"))
    runner: SandboxRunner = request.getfixturevalue("sandbox")
    docker_services.wait_until_responsive(
        check=lambda: runner.run(["bash", "-c", "exec 3<>/dev/tcp/cache/6379"]).ok,
        timeout=60,
        pause=0.2,
    )
    return runner
