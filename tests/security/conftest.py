"""The real engine behind a Toolbox, and a scratch workspace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sandboxed_tools.sandbox.docker import DockerSandbox
    from sandboxed_tools.sandbox.docker.engine import Engine


@pytest.fixture
def sandbox(engine: Engine, base_image: str) -> Iterator[DockerSandbox]:
    """A sandbox of this test alone: whatever it has on the engine is this test's."""
    from sandboxed_tools.sandbox.docker import DockerSandbox
    from sandboxed_tools.workspace import WorkspaceViews

    made = DockerSandbox(engine, views=WorkspaceViews())
    yield made
    made.close()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "file.txt").write_text("content\n")
    return folder
