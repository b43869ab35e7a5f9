"""Programs that the documents show, run as a reader would."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

__all__ = ["programs_in", "run_program"]


def programs_in(text: str) -> list[str]:
    """The Python blocks of a document."""
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def run_program(program: str, folder: Path) -> str:
    """What a program prints that ends well, and warns of nothing, in ``folder``."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
