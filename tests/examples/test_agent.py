"""The example agent: streaming, parallel reads, a refusal, a confirmation and an undo, for real."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "agent.py"


@pytest.mark.engine
@pytest.mark.usefixtures("engine")
def test_the_example_agent_does_what_it_says(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLE],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]

    def number(beginning: str) -> int:
        found = [index for index, line in enumerate(lines) if line.startswith(beginning)]
        assert found, f"{beginning!r} is missing in:\n{done.stdout}"
        return found[0]

    for call in "123":
        assert number(f"✓ {call} ") > number(f"→ {call} ")
    assert number("✓ 1 ") < number("✓ 2 ") < number("✓ 3 ") < number("✗ 4 Read: Read was not run")
    assert number("✗ 5 Bash: Bash was not run") < number("✗ 6 Bash: The call was not run, because")
    assert number("? Write: NOTES.md") < number("→ 7 ") < number("✓ 7 ")
    assert number("✓ 8 Bash: Hello world") < number("held: ")
    for line in ("held: ", "applied; ", "undone; "):
        assert lines[number(line)].endswith("True")
    assert "not for models" not in done.stdout
    assert not list(tmp_path.iterdir())
