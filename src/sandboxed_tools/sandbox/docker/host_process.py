"""Running a program of the host's own (apt, mmdebstrap, an engine's start script) with a deadline.

For set-up only: nothing that a model or an input chose is ever run by this.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

__all__ = ["Finished", "run_program"]

TAIL_LINES = 40
GRACE_S = 10.0


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended: its exit code (negative for a signal) and its last lines.

    ``timed_out``: it was ended at its deadline.
    """

    exit_code: int
    tail: tuple[str, ...]
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.timed_out


def run_program(
    argv: Sequence[str],
    *,
    deadline_s: float,
    on_line: Callable[[str], None] | None = None,
    stdout: IO[bytes] | None = None,
    env: Mapping[str, str] | None = None,
) -> Finished:
    """Run a program to its end, its output given to ``on_line`` as it comes.

    ``stdout`` receives standard output unread; otherwise it is read together with standard error.
    At the deadline, and when the caller is interrupted, the whole process group is ended: first by
    SIGTERM, so that it can release mounts, and after ten seconds by SIGKILL.

    Raises:
        OSError: the program cannot be started.
    """
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    with subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=stdout or subprocess.PIPE,
        stderr=subprocess.PIPE if stdout else subprocess.STDOUT,
        env=None if env is None else dict(env),
        start_new_session=True,
    ) as process:
        pipe = process.stderr if stdout else process.stdout
        assert pipe is not None
        try:
            in_time = _read_lines(pipe, process, time.monotonic() + deadline_s, tail, on_line)
            if in_time:
                return Finished(process.wait(), tuple(tail))
        finally:
            _end_group(process)
    return Finished(process.returncode, tuple(tail), timed_out=True)


def _read_lines(
    pipe: IO[bytes],
    process: subprocess.Popen[bytes],
    deadline: float,
    tail: deque[str],
    on_line: Callable[[str], None] | None,
) -> bool:
    """Read until the program has ended; ``False`` when the deadline came first.

    A daemon that it left behind may hold the pipe open, so its end is not waited for.
    """
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while (left_s := deadline - time.monotonic()) > 0:
            if not selector.select(min(left_s, 0.2)):
                if process.poll() is not None:
                    return True
                continue
            data = os.read(pipe.fileno(), 65536)
            *lines, rest = (rest + data).replace(b"\r", b"\n").split(b"\n")
            rest = rest[-65536:]
            for line in [*lines, *([rest] if rest and not data else [])]:
                text = line.decode("utf-8", "replace")
                if text.strip():
                    tail.append(text[:1000])
                    if on_line is not None:
                        on_line(text[:1000])
            if not data:
                break
        else:
            return False
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=max(0.1, deadline - time.monotonic()))
        return True
    return False


def _end_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    for number, patience_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=patience_s)
            return
