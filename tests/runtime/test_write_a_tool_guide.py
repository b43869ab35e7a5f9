"""The guide from twelve lines to a moved call: every block runs as it stands, and prints this."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "write-a-tool.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
PRINTED = (
    "3\n",
    "['C', 'a', 'b']\n",
    "{'step': 'writing'}\ncontainer path='page.md' size=8\nRemoteError FileNotFoundError\n",
    "45 None ()\n",
)


def test_every_block_has_its_expectation() -> None:
    assert len(BLOCKS) == len(PRINTED)


@pytest.mark.engine
@pytest.mark.usefixtures("python_image")
@pytest.mark.parametrize(("block", "printed"), [*zip(BLOCKS, PRINTED, strict=True)])
def test_the_blocks_of_the_guide_run(block: str, printed: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
    assert list(tmp_path.iterdir()) == []
