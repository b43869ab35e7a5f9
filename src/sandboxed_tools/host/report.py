"""What the supervisor says on the control socket, read strictly."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

__all__ = ["Denial", "Ended", "Report"]

_MAX_LINE_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class Denial:
    """Something that the gate did not let happen.

    ``call`` is the system call. ``path`` is what it named, made absolute, where that is known; it
    is foreign text, read from the memory of the program.
    """

    call: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The last line: every process of the call is dead by then.

    ``cwd`` is where the main process ended, when that place still is.
    """

    by_request: bool
    exit_code: int | None
    signal: int | None
    cpu_s: float
    memory_peak_bytes: int
    cwd: str | None = None


@dataclass(slots=True)
class Report:
    """Collects lines; ``problem`` is what went wrong with the gate itself."""

    started: bool = False
    ended: Ended | None = None
    problem: str | None = None
    denied: list[Denial] = field(default_factory=list)
    _rest: bytes = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes from the socket."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line.decode("ascii", "replace").split(" "))
        if len(self._rest) > _MAX_LINE_BYTES:
            self.problem = "the supervisor's report is malformed"
            self._rest = b""

    def _take(self, words: list[str]) -> None:
        match words:
            case ["started"]:
                self.started = True
            case ["denied", *call, path]:
                name = os.fsdecode(bytes.fromhex(path)) if path else None
                self.denied.append(Denial(" ".join(call), name))
            case ["ended", ("self" | "request") as by, status, cpu_us, peak_kib, cwd]:
                code = os.waitstatus_to_exitcode(int(status))
                self.ended = Ended(
                    by_request=by == "request",
                    exit_code=code if code >= 0 else None,
                    signal=-code if code < 0 else None,
                    cpu_s=int(cpu_us) / 1e6,
                    memory_peak_bytes=int(peak_kib) * 1024,
                    cwd=os.fsdecode(bytes.fromhex(cwd)) or None,
                )
            case _:
                self.problem = " ".join(words)
