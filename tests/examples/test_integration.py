"""The example of services is a pytest suite, and is run as its reader would run it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "integration"


def has_compose() -> bool:
    if shutil.which("docker-compose"):
        return True
    try:
        found = subprocess.run(
            ["docker", "compose", "version"], capture_output=True, check=False, timeout=60
        )
    except OSError:
        return False
    return found.returncode == 0


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.timeout(600)  # the first time, an image is built from Debian's packages
def test_the_untrusted_suite_reaches_its_cache_and_nobody_beyond(base_image: str) -> None:
    if not has_compose():
        pytest.skip("neither 'docker compose' nor docker-compose is here")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLE)],
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
        cwd=EXAMPLE.parents[1],
        env={**os.environ, "BASE": base_image, "CI": "true"},
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert "2 passed" in done.stdout
