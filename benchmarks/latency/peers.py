"""Other libraries, each in an interpreter of another environment that answers over a pipe."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.latency.figures import Fresh, Series

__all__ = ["Peer", "start_peers"]

DRIVERS = Path(__file__).resolve().parent.parent / "peers"
PEERS = {
    "llm-sandbox": "llm_sandbox_driver.py",
    "autogen, Docker executor": "autogen_driver.py",
    "testcontainers": "testcontainers_driver.py",
}
KEPT_WORDS: dict[str, Fresh] = {"fresh": "yes", "kept": "no", "pool": "no"}
FRESH_AT_MOST = 10
"""A fresh container of theirs takes as long as ours takes for a hundred calls."""


class Peer:
    """One driver. ``series`` has one entry for each way that it offers, or one that says why not.

    A driver clocks its own calls, so that the pipe to it costs it nothing.
    """

    def __init__(self, name: str, python: Path, driver: Path, *, image: str, engine: str) -> None:
        self.name = name
        self.series: dict[str, Series] = {}
        self._process: subprocess.Popen[str] | None = None
        if not python.exists():
            self._is_missing("not installed")
            return
        self._process = subprocess.Popen(
            [str(python), str(driver), image],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "DOCKER_HOST": engine, "TESTCONTAINERS_RYUK_DISABLED": "true"},
        )
        hello = self._answer()
        if "ways" not in hello:
            self._is_missing(str(hello.get("missing", "its driver did not start")))
            return
        for way in hello["ways"]:
            label = f"{name} {hello['version']}, {hello['ways'][way]}"
            self.series[way] = Series(label, KEPT_WORDS[way])

    def measure(self) -> None:
        """One call in each way; a way that fails is left out from then on, and says so."""
        for way, series in self.series.items():
            if self._process is None or series.note:
                continue
            if series.fresh == "yes" and len(series.times_ms) >= FRESH_AT_MOST:
                continue
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(way + "\n")
                self._process.stdin.flush()
            except OSError:
                series.note = "its driver ended"
                continue
            answer = self._answer()
            if "ms" in answer:
                series.times_ms.append(float(answer["ms"]))
            else:
                series.note = str(answer.get("error", "its driver ended"))[:200]

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def _is_missing(self, why: str) -> None:
        self.series = {"fresh": Series(self.name, "yes", note=why)}

    def _answer(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return dict(json.loads(line)) if line else {}


def start_peers(python: Path, *, image: str, engine: str) -> list[Peer]:
    """Every peer; those that are not installed say so in their only row. Blocking."""
    return [
        Peer(name, python, DRIVERS / driver, image=image, engine=engine)
        for name, driver in PEERS.items()
    ]
