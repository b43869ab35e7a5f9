"""The examples of the guide to testing are tests, and pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.documented import programs_in

pytest_plugins = ("pytester",)

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "testing.md"


@pytest.mark.engine
@pytest.mark.timeout(240)
def test_the_examples_of_the_guide_pass(pytester: pytest.Pytester) -> None:
    blocks = programs_in(GUIDE.read_text(encoding="utf-8"))
    assert len(blocks) == 2
    for number, block in enumerate(blocks):
        (pytester.path / f"test_block_{number}.py").write_text(block)
    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "-o", "anyio_mode=auto", timeout=200
    )
    result.assert_outcomes(passed=3)  # the asynchronous one on both event loops
