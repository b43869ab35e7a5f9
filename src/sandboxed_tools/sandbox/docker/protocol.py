"""The language of the launcher: frames to it, marks and one report from it.

``images/launcher/launcher.c`` is the other side and describes the frames. Both directions share the
container's own streams: frames travel in standard input, and what the launcher says travels between
the command's own output on stdout and stderr, told apart by marks that nobody else can know.
"""

from __future__ import annotations

import secrets
import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from sandboxed_tools.tool.command import Command

__all__ = [
    "PIECE_BYTES",
    "WINDOW_BYTES",
    "Frame",
    "MarkScanner",
    "Report",
    "ReportReader",
    "Scanned",
    "begin_frame",
    "call_frames",
    "frame",
    "new_mark",
]

PIECE_BYTES = 64 * 1024
"""Most bytes of script or standard input in one frame; the launcher takes twice as much."""

WINDOW_BYTES = 256 * 1024
"""Standard input on its way and not yet acknowledged. The launcher holds up to four times as much,
so it never stops reading its frames, and a kill always gets through."""

MAX_REPORT_BYTES = 16 * 1024
MAX_FIGURE = 2**63 - 1
"""An image may bring a launcher of its own, which may say anything."""

_MARK_START = b"\x1d"


class Frame:
    """Types of frames, as in ``launcher.c``."""

    SCRIPT = b"P"
    CONFIGURE = b"C"
    STDIN = b"I"
    STDIN_WITH_NONCE = b"J"
    STDIN_END = b"E"
    KILL = b"K"
    HEARTBEAT = b"H"
    BEGIN = b"B"


def frame(kind: bytes, payload: bytes = b"") -> bytes:
    """One frame: type, length, payload."""
    return struct.pack(">cI", kind, len(payload)) + payload


def new_mark() -> bytes:
    """A mark with 128 random bits that the untrusted command cannot guess."""
    return _MARK_START + secrets.token_hex(16).encode()


def call_frames(
    command: Command,
    *,
    mark: bytes,
    cwd: str,
    file_bytes: int,
    deadline_s: float,
    heartbeat_s: float | None = None,
) -> Iterator[bytes]:
    """The frames that start ``command``, without its standard input.

    ``deadline_s`` and ``heartbeat_s`` are kept by the launcher itself, for a client that is alive
    but does nothing any more.
    """
    script = command.script or b""
    for start in range(0, len(script), PIECE_BYTES):
        yield frame(Frame.SCRIPT, script[start : start + PIECE_BYTES])
    if command.script == b"":
        yield frame(Frame.SCRIPT)  # an empty script is still there to be opened
    fields = [(b"t", mark), (b"c", _encoded(command.cwd or cwd))]
    fields += [(b"a", _encoded(text)) for text in command.argv]
    fields += [(b"e", _encoded(f"{name}={value}")) for name, value in command.env.items()]
    fields += _bounds(file_bytes, deadline_s, heartbeat_s)
    if command.stdin is not None:
        fields.append((b"i", b"1"))
    yield frame(Frame.CONFIGURE, _packed(fields))


def begin_frame(*, file_bytes: int, deadline_s: float, heartbeat_s: float | None = None) -> bytes:
    """The frame that begins the call of a command that was started before and waits for it."""
    return frame(Frame.BEGIN, _packed(_bounds(file_bytes, deadline_s, heartbeat_s)))


def _bounds(
    file_bytes: int, deadline_s: float, heartbeat_s: float | None
) -> list[tuple[bytes, bytes]]:
    fields = [(b"d", b"%d" % int(deadline_s * 1000)), (b"f", b"%d" % file_bytes)]
    if heartbeat_s is not None:
        fields.append((b"h", b"%d" % int(heartbeat_s * 1000)))
    return fields


def _packed(fields: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(struct.pack(">cI", tag, len(value)) + value for tag, value in fields)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class Scanned:
    """What one read came to: the command's own bytes, marks seen, and what follows the end."""

    visible: bytes
    acknowledged: int = 0
    ended: bool = False
    rest: bytes = b""


class MarkScanner:
    """Takes marks out of one stream, whichever way reads cut it.

    Bytes are held back only while they are the true beginning of a mark that may come, so live
    output is not delayed. ``expect`` adds an acknowledgement that may come; they come in order.
    """

    __slots__ = ("_end", "_expected", "_held")

    def __init__(self, end_mark: bytes) -> None:
        self._end = end_mark
        self._expected: deque[bytes] = deque()
        self._held = b""

    def expect(self, nonce: bytes) -> None:
        self._expected.append(_MARK_START + nonce)

    def feed(self, data: bytes) -> Scanned:
        """Take the next bytes of the stream; after the end mark nothing may be fed any more."""
        data = self._held + data
        self._held = b""
        end = data.find(self._end)
        rest = b""
        if end >= 0:
            rest = data[end + len(self._end) :]
            data = data[:end]
        visible, acknowledged = self._without_acknowledgements(data)
        if end < 0:
            visible = self._hold_back(visible)
        return Scanned(visible, acknowledged, end >= 0, rest)

    def finish(self) -> bytes:
        """What is still held back, when the stream has ended without its mark."""
        held, self._held = self._held, b""
        return held

    def _without_acknowledgements(self, data: bytes) -> tuple[bytes, int]:
        pieces: list[bytes] = []
        count = 0
        while self._expected:
            place = data.find(self._expected[0])
            if place < 0:
                break
            pieces.append(data[:place])
            data = data[place + len(self._expected.popleft()) :]
            count += 1
        return (b"".join([*pieces, data]) if pieces else data), count

    def _hold_back(self, data: bytes) -> bytes:
        marks = [self._end, *list(self._expected)[:1]]
        place = data.find(_MARK_START, max(0, len(data) - max(map(len, marks)) + 1))
        while place >= 0:
            tail = data[place:]
            if any(mark.startswith(tail) for mark in marks):
                self._held = tail
                return data[:place]
            place = data.find(_MARK_START, place + 1)
        return data


@dataclass(frozen=True, slots=True)
class Report:
    """What the launcher found out. ``None`` where the kernel here does not say.

    ``why``: ``exit`` when the main process ended by itself, else what ended the call: ``kill``,
    ``deadline``, ``heartbeat``, ``lease``, ``protocol``, ``start``.
    """

    why: str
    exit_code: int | None
    signal: int | None
    oom_kills: int | None
    pids_refused: int | None
    pids_peak: int | None
    memory_peak_bytes: int | None
    cpu_s: float | None
    throttled_s: float | None
    tmp_full: bool
    cwd: str | None


class ReportReader:
    """Collects the report that stands behind the end mark of stderr: length in hex, then lines."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> Report | None:
        """The report, once it is whole.

        Raises:
            ValueError: this is no report.
        """
        self._data += data
        if len(self._data) < 8:
            return None
        size = int(self._data[:8], 16)
        if size > MAX_REPORT_BYTES:
            raise ValueError("the launcher's report is too long")
        if len(self._data) < 8 + size:
            return None
        return _parsed(self._data[8 : 8 + size])


def _parsed(text: bytes) -> Report:
    head, _, cwd = text.partition(b"\ncwd ")
    values = dict(line.split(" ", 1) for line in head.decode("ascii").split("\n"))

    def number(name: str) -> int | None:
        value = int(values.get(name, "-1"))
        if value > MAX_FIGURE:
            raise ValueError(f"the launcher's report holds {name} of more than can be")
        return None if value < 0 else value

    def seconds(name: str) -> float | None:
        value = number(name)
        return None if value is None else value / 1e9

    return Report(
        why=values["why"],
        exit_code=number("exit"),
        signal=number("signal") or None,
        oom_kills=number("oom_kill"),
        pids_refused=number("pids_max"),
        pids_peak=number("pids_peak"),
        memory_peak_bytes=number("memory_peak"),
        cpu_s=seconds("cpu_ns"),
        throttled_s=seconds("throttled_ns"),
        tmp_full=values.get("tmp_full") == "1",
        cwd=cwd.removesuffix(b"\n").decode("utf-8", "surrogateescape") or None,
    )
