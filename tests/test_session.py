"""The session's own rules: no engine, and things left behind, are seen."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import docker

CHECKOUT = Path(__file__).parents[1]

NEEDS_ENGINE = """
import pytest

@pytest.mark.engine
def test_that_needs_an_engine():
    pass
"""

LEAKS_A_CONTAINER = """
import pytest
from sandboxed_tools.sandbox.docker.images import resolve_image
from sandboxed_tools.sandbox.docker.owner import Owner

@pytest.mark.engine
def test_that_leaks(api, base_image):
    labels = Owner.current().labels(deadline_s=60, kind="test")
    api.create_container(resolve_image(api, base_image).id, ["true"], labels=labels)
"""

LEAKS_A_FOLDER = """
import tempfile

def test_that_leaks():
    tempfile.mkdtemp()
"""


def run_session(folder: Path, content: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run one test file in a session of its own, under this repository's conftest."""
    (folder / "test_it.py").write_text(content)
    dropped = {"CI", "DOCKER_HOST", "PYTEST_ADDOPTS", "SANDBOXED_TOOLS_STATE_DIR", "TMPDIR"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    options = [
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "-c",
        str(CHECKOUT / "pyproject.toml"),
    ]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, "--rootdir", str(folder), str(folder)],
        cwd=CHECKOUT,
        env={**kept, **environ},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def test_without_an_engine_ci_fails_and_a_laptop_skips(tmp_path: Path) -> None:
    nowhere = {"DOCKER_HOST": "unix:///nowhere/x.sock"}
    laptop = run_session(tmp_path, NEEDS_ENGINE, **nowhere)
    assert laptop.returncode == 0
    assert "1 skipped" in laptop.stdout
    assert "/nowhere/x.sock" in laptop.stdout
    ci = run_session(tmp_path, NEEDS_ENGINE, CI="true", **nowhere)
    assert ci.returncode == 1
    assert "/nowhere/x.sock" in ci.stdout


@pytest.mark.engine
def test_a_container_left_behind_fails_the_session_that_left_it(
    tmp_path: Path, api: docker.APIClient
) -> None:
    done = run_session(tmp_path, LEAKS_A_CONTAINER, LEAK_DEADLINE_S="0.5")
    found = re.search(r"container ([0-9a-f]{12}) ", done.stdout)
    assert found is not None, done.stdout
    api.remove_container(found[1], force=True, v=True)
    assert done.returncode == 1
    assert "left behind by this session" in done.stdout


def test_a_temporary_folder_left_behind_fails_the_session(tmp_path: Path) -> None:
    done = run_session(tmp_path, LEAKS_A_FOLDER, LEAK_DEADLINE_S="0.5")
    assert done.returncode == 1
    assert "left behind by this session" in done.stdout
