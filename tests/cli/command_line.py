"""Running the command line as a user does: a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Done:
    code: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def errors(self) -> str:
        return self.stderr.decode("utf-8", "replace")

    @property
    def object(self) -> Any:
        return json.loads(self.stdout)


def command_line(
    *words: str | bytes | Path,
    stdin: bytes = b"",
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    timeout_s: float = 170,
) -> Done:
    """Run ``sandboxed-tools WORDS…`` and wait for it."""
    done = subprocess.run(
        [sys.executable, "-m", "sandboxed_tools.cli.main", *words],
        input=stdin,
        cwd=cwd,
        env=env,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)
