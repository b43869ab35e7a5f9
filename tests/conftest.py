"""What every test shares: a state folder of its own, the real engine, and a check for leaks.

The session has its own state folder, hence its own installation id, hence its own labels: whatever
is left on the engine with these labels at the end was leaked by this very session, also when other
sessions share the engine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    import docker

    from sandboxed_tools.sandbox.docker.engine import Engine

IS_CI = os.environ.get("CI", "").lower() not in {"", "0", "false"}
# What is being removed at the end gets this long to go.
LEAK_DEADLINE_S = float(os.environ.get("LEAK_DEADLINE_S", "20"))

SESSION_ROOT = pytest.StashKey[Path]()

# Property tests have no deadline and the same examples in each run: by default an example that
# takes 200 ms fails, and on a machine that does other work besides any of them may.
settings.load_profile("ci")


def pytest_configure(config: pytest.Config) -> None:
    root = Path(tempfile.mkdtemp(prefix="st-tests-"))
    for name in ("state", "tmp", "config"):
        (root / name).mkdir(mode=0o700)
    # Reachable by containers' users, as the parents of a workspace are on a real machine.
    root.chmod(0o711)
    (root / "tmp").chmod(0o711)
    config.stash[SESSION_ROOT] = root
    # The policy of whoever runs the tests is no part of them.
    for name in [name for name in os.environ if name.upper().startswith("SANDBOXED_TOOLS_")]:
        del os.environ[name]
    os.environ["SANDBOXED_TOOLS_STATE_DIR"] = str(root / "state")
    os.environ["XDG_CONFIG_HOME"] = str(root / "config")
    os.environ["TMPDIR"] = str(root / "tmp")
    tempfile.tempdir = None
    # Tests of fork bombs raise it for minutes, and over its limit no container is made ahead.
    os.getloadavg = lambda: (0.0, 0.0, 0.0)


def pytest_unconfigure(config: pytest.Config) -> None:
    # Not shutil.rmtree: it is recursive, and tests make trees that are thousands of folders deep.
    root = config.stash[SESSION_ROOT]
    subprocess.run(["rm", "-rf", "--one-file-system", "--", root], check=False, timeout=120)


def _find_engine() -> Engine | str:
    from sandboxed_tools.errors import SandboxedToolsError
    from sandboxed_tools.sandbox.docker.engine import find_engine

    try:
        return find_engine()
    except SandboxedToolsError as error:
        return f"{error} ({error.operator_detail})"


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The engine of this machine. Without one: failure in CI, a skip with the reason elsewhere."""
    found = _find_engine()
    if isinstance(found, str):
        if IS_CI:
            pytest.fail(found, pytrace=False)
        pytest.skip(found)
    return found


@pytest.fixture(scope="session")
def base_image(engine: Engine) -> str:
    """The name of the image that calls run in, built first when this version of it is missing."""
    from sandboxed_tools.errors import SandboxedToolsError
    from sandboxed_tools.sandbox.docker.image_build import build_images
    from sandboxed_tools.sandbox.docker.images import BASE_IMAGE

    try:
        build_images(engine)
    except SandboxedToolsError as error:
        pytest.fail(f"{error}\n{error.operator_detail}", pytrace=False)
    return BASE_IMAGE


@pytest.fixture(scope="session")
def python_image(engine: Engine, base_image: str) -> str:
    """The name of the image that Python tools run in, built first when it is missing."""
    from sandboxed_tools.errors import SandboxedToolsError
    from sandboxed_tools.sandbox.docker.images import PYTHON_IMAGE
    from sandboxed_tools.sandbox.docker.python_images import build_python_images

    try:
        build_python_images(engine)
    except SandboxedToolsError as error:
        pytest.fail(f"{error}\n{error.operator_detail}", pytrace=False)
    return PYTHON_IMAGE


@pytest.fixture(scope="session")
def data_image(engine: Engine, python_image: str) -> str:
    """The name of the image with numpy, pandas and matplotlib."""
    from sandboxed_tools.errors import SandboxedToolsError
    from sandboxed_tools.sandbox.docker.images import DATA_IMAGE
    from sandboxed_tools.sandbox.docker.python_images import build_python_images

    try:
        build_python_images(engine, data=True)
    except SandboxedToolsError as error:
        pytest.fail(f"{error}\n{error.operator_detail}", pytrace=False)
    return DATA_IMAGE


@pytest.fixture(autouse=True)
def _engine_for_marked_tests(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("engine") is not None:
        request.getfixturevalue("base_image")


@pytest.fixture
def api(engine: Engine) -> Iterator[docker.APIClient]:
    """A client of the engine, closed after the test."""
    client = engine.api()
    try:
        yield client
    finally:
        client.close()


def _leaks_on_engine() -> list[str]:
    if "docker" not in sys.modules:
        return []
    found = _find_engine()
    if isinstance(found, str):
        return []
    from sandboxed_tools.tool.state import installation_id

    mine = {"label": f"sandboxed-tools.installation={installation_id()}"}
    client = found.api()
    try:
        containers = client.containers(all=True, filters=mine)
        volumes = client.volumes(filters=mine)["Volumes"] or []
        networks = client.networks(filters=mine)
    finally:
        client.close()
    return [
        *(f"container {c['Id'][:12]} {c['Names']} {c['Status']}" for c in containers),
        *(f"volume {v['Name']}" for v in volumes),
        *(f"network {n['Name']}" for n in networks),
    ]


def _leaks_on_host(root: Path) -> list[str]:
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    left = [
        path
        for path in (root / "tmp").iterdir()
        if not path.name.startswith(("pytest-of-", "pytest-"))
    ]
    return [
        *(f"mount {line.split()[4]}" for line in mounts.splitlines() if str(root) in line),
        *(f"temporary {path}" for path in left),
    ]


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    root = request.config.stash[SESSION_ROOT]
    deadline = time.monotonic() + LEAK_DEADLINE_S
    while leaks := [*_leaks_on_engine(), *_leaks_on_host(root)]:
        if time.monotonic() > deadline:
            pytest.fail("left behind by this session:\n" + "\n".join(leaks), pytrace=False)
        time.sleep(0.2)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio; those about the event loop itself name both backends."""
    return "asyncio"
