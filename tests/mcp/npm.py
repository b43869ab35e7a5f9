"""Tools of the MCP project itself, from npm: judges that nobody here wrote.

They are installed once into a cache folder. In CI one that cannot be had is a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.conftest import IS_CI

INSTALL_DEADLINE_S = 600


def npm_tool(package: str, version: str, entry: str) -> list[str]:
    """The command line of a tool. Skips outside CI when it cannot be had."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return _missing("node and npm are not installed")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "sandboxed-tools-tests" / f"{package.replace('/', '-')}-{version}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as draft:
            done = subprocess.run(
                [
                    npm,
                    "install",
                    "--ignore-scripts",
                    "--no-audit",
                    "--no-fund",
                    "--prefix",
                    draft,
                    f"{package}@{version}",
                ],
                capture_output=True,
                text=True,
                timeout=INSTALL_DEADLINE_S,
                check=False,
            )
            if done.returncode:
                return _missing(f"{package} cannot be installed: {done.stderr[-500:]}")
            os.rename(Path(draft) / "node_modules", Path(draft) / "whole")
            folder.mkdir()
            os.rename(Path(draft) / "whole", folder / "node_modules")
    return [node, str(folder / "node_modules" / package / entry)]


def _missing(why: str) -> list[str]:
    if IS_CI:
        pytest.fail(why, pytrace=False)
    pytest.skip(why)
