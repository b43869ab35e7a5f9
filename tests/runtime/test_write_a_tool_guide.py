"""The guide from twelve lines to a moved call: every block runs as it stands, and prints this."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.documented import programs_in, run_program

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "write-a-tool.md").read_text("utf-8")
BLOCKS = programs_in(GUIDE)
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
    assert run_program(block, tmp_path) == printed
    assert list(tmp_path.iterdir()) == []
