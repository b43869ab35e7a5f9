"""What the drivers share: a way a line on standard input, a JSON object a line on standard output.

A driver runs in an environment of its own, without this project. The clock runs until the result is
there; what a library does to clean up is not counted, which is generous.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

TEXT = "echo hi; exit 3"
ARGV = ["bash", "-c", TEXT]
EXIT = 3

Way = Callable[[], Callable[[], object]]
"""Makes the call and returns how to clean up after it."""


def serve(
    distribution: str, ways: dict[str, tuple[str, Way]], *, close: Callable[[], None]
) -> None:
    """Answer until standard input ends."""
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no answer
    labels = {name: label for name, (label, _) in ways.items()}
    channel.write(json.dumps({"version": version(distribution), "ways": labels}) + "\n")
    try:
        for line in sys.stdin:
            channel.write(json.dumps(_timed(ways[line.strip()][1])) + "\n")
    finally:
        close()


def _timed(way: Way) -> dict[str, object]:
    begin = time.perf_counter()
    try:
        clean_up = way()
        took_ms = (time.perf_counter() - begin) * 1000
        clean_up()
    except Exception as error:  # noqa: BLE001  reported to the one who asked
        return {"error": f"{type(error).__name__}: {error}"}
    return {"ms": took_ms}


def require(*distributions: str) -> None:
    """End with an answer when one of them is not installed here."""
    for name in distributions:
        try:
            version(name)
        except PackageNotFoundError:
            sys.stdout.write(json.dumps({"missing": "not installed"}) + "\n")
            raise SystemExit(0) from None


def nothing() -> None:
    """There is nothing to clean up."""
