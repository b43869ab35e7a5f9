"""Runs inside the virtual machine: takes the steps of a plan one after another, and tells of each.

Standard library only: the system's own Python executes it, before anything is installed. Two ports
lead out: on ``progress`` go short lines for a person, on ``results`` one JSON object for each step
as soon as it has ended, so that a machine that dies has told how far it came.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any

PORTS = Path("/dev/virtio-ports")
PORT_DEADLINE_S = 30.0
HEARTBEAT_S = 30.0
OUTPUT_BYTES = 4 * 1024 * 1024


def open_port(name: str) -> IO[str]:
    """The port as a stream of lines; udev may still be making its name."""
    deadline = time.monotonic() + PORT_DEADLINE_S
    while not (PORTS / name).exists():
        if time.monotonic() > deadline:
            sys.exit(f"there is no port {name}")
        time.sleep(0.1)
    return (PORTS / name).open("w", buffering=1, encoding="utf-8")


def take(step: dict[str, Any], progress: IO[str]) -> dict[str, Any]:
    """Run one step to its end or its deadline, and collect what it made."""
    name = step["name"]
    progress.write(f"{name}: begins\n")
    started = time.monotonic()
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        over = threading.Event()
        beat = threading.Thread(
            target=heartbeat, args=(name, stdout, stderr, progress, over), daemon=True
        )
        beat.start()
        try:
            exit_code, timed_out = run(step, stdout, stderr)
        finally:
            over.set()
            beat.join()
        seconds = time.monotonic() - started
        progress.write(f"{name}: ended with {exit_code} after {seconds:.0f} s\n")
        return {
            "name": name,
            "exit_code": exit_code,
            "timed_out": timed_out,
            "seconds": seconds,
            "stdout": text_of(stdout),
            "stderr": text_of(stderr),
            "file": file_of(step.get("file")),
        }


def run(step: dict[str, Any], stdout: IO[bytes], stderr: IO[bytes]) -> tuple[int, bool]:
    """The exit code of the step's command, and whether it was ended at its deadline."""
    try:
        process = subprocess.Popen(
            step["argv"],
            cwd=step["cwd"],
            env={**os.environ, **step["env"]},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    except OSError as error:
        stderr.write(f"{error}\n".encode())
        stderr.flush()
        return 127, False
    try:
        return process.wait(timeout=float(step["deadline_s"])), False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait(), True


def heartbeat(
    name: str, stdout: IO[bytes], stderr: IO[bytes], progress: IO[str], over: threading.Event
) -> None:
    """Say every few seconds how long it has taken, and the last line that it wrote."""
    started = time.monotonic()
    while not over.wait(HEARTBEAT_S):
        lines = [line for line in (last_line(stdout), last_line(stderr)) if line]
        said = f": {lines[0]}" if lines else ""
        progress.write(f"{name}: {time.monotonic() - started:.0f} s{said}\n")


def last_line(stream: IO[bytes]) -> str:
    size = os.fstat(stream.fileno()).st_size
    end = os.pread(stream.fileno(), 2000, max(0, size - 2000)).decode("utf-8", "replace")
    lines = end.split("\n")[:-1]
    return lines[-1][:150] if lines else ""


def text_of(stream: IO[bytes]) -> str:
    """What was written, its end only when it is long."""
    size = os.fstat(stream.fileno()).st_size
    start = max(0, size - OUTPUT_BYTES)
    return os.pread(stream.fileno(), OUTPUT_BYTES, start).decode("utf-8", "replace")


def file_of(name: str | None) -> str | None:
    if name is None or not Path(name).is_file():
        return None
    return Path(name).read_text(encoding="utf-8", errors="replace")


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    with open_port("progress") as progress, open_port("results") as results:
        progress.write(f"the machine is up after {time.clock_gettime(time.CLOCK_BOOTTIME):.0f} s\n")
        for step in plan:
            done = take(step, progress)
            results.write(json.dumps(done) + "\n")
            results.flush()
            if done["exit_code"] != 0 and step["is_needed"]:
                progress.write(f"{step['name']}: nothing goes without it\n")
                break


if __name__ == "__main__":
    main()
