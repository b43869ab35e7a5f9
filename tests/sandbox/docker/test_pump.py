"""The pump against an engine that says whatever it likes."""

from __future__ import annotations

import itertools
import socket
import struct
import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxed_tools.sandbox.docker import pump
from sandboxed_tools.sandbox.docker.connection import Connection
from sandboxed_tools.sandbox.docker.protocol import WINDOW_BYTES
from sandboxed_tools.sandbox.docker.pump import Pump, Pumped
from sandboxed_tools.sandbox.docker.stdin_feed import StdinFeed
from sandboxed_tools.tool.limits import Limits

MARK = b"\x1d" + b"ab" * 16
REPORT = b"why exit\nexit 3\nsignal 0\ncwd /\n"
END = MARK + b"%08x" % len(REPORT) + REPORT


def muxed(stream: int, payload: bytes) -> bytes:
    return struct.pack(">BxxxI", stream, len(payload)) + payload


def pumped(
    script: Callable[[socket.socket], None],
    *,
    limits: Limits | None = None,
    stdin: StdinFeed | None = None,
    stuck: list[float] | None = None,
) -> Pumped:
    """Run a pump against ``script``, which plays the engine on the other end of a socket."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    connection = Connection(ours, process=None)
    pump = Pump(
        connection,
        limits=limits or Limits(wall_s=20),
        end_mark=MARK,
        start_frames=b"start",
        stdin=stdin,
        on_stuck=lambda: stuck.append(time.monotonic()) if stuck is not None else None,
    )
    engine = threading.Thread(target=script, args=(theirs,))
    engine.start()
    try:
        return pump.run()
    finally:
        connection.close()
        engine.join(20)
        theirs.close()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=8),
    st.lists(st.integers(1, 9999), max_size=12),
)
def test_output_is_whole_however_the_engine_cuts_and_mixes_it(
    pieces: list[tuple[int, bytes]], places: list[int]
) -> None:
    data = b"".join(muxed(stream, payload) for stream, payload in pieces)
    data += muxed(1, MARK[:7]) + muxed(2, END[:40]) + muxed(1, MARK[7:]) + muxed(2, END[40:])
    edges = sorted({0, len(data), *(place % len(data) for place in places)})

    def engine(stream: socket.socket) -> None:
        for start, end in itertools.pairwise(edges):
            stream.sendall(data[start:end])

    result = pumped(engine)
    assert result.ending == "ended"
    assert result.report is not None
    assert result.report.exit_code == 3
    for number, collector in ((1, "stdout"), (2, "stderr")):
        expected = b"".join(payload for stream, payload in pieces if stream == number)
        assert result.collectors[collector].kept() == expected  # type: ignore[index]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 500 no\r\n\r\n",
        muxed(1, b"out"),
        muxed(1, MARK) + muxed(2, MARK + b"zzzzzzzz"),
        muxed(1, MARK) + muxed(2, MARK + b"00000004why\n"),
        muxed(1, MARK) + muxed(2, MARK + b"ffffffff"),
        struct.pack(">BxxxI", 1, 0xFFFFFFFF) + b"a little",
        muxed(7, b"a stream that is none") + muxed(0, b"another"),
    ],
)
def test_stream_that_ends_or_lies_is_lost_and_never_a_result(data: bytes) -> None:
    def engine(stream: socket.socket) -> None:
        stream.sendall(data)
        stream.shutdown(socket.SHUT_RDWR)

    result = pumped(engine)
    assert (result.ending, result.report) == ("lost", None)


def test_engine_that_says_nothing_is_left_at_the_deadline_and_asked_to_kill() -> None:
    stuck: list[float] = []
    begin = time.monotonic()
    result = pumped(lambda _stream: None, limits=Limits(wall_s=0.2), stuck=stuck)
    assert (result.ending, result.report) == ("wall", None)
    assert len(stuck) == 1
    assert time.monotonic() - begin < 15


def test_engine_that_reads_nothing_holds_no_deadline() -> None:
    stdin = StdinFeed(b"x" * (10 * WINDOW_BYTES))
    begin = time.monotonic()
    assert pumped(lambda _stream: None, limits=Limits(wall_s=0.2), stdin=stdin).ending == "wall"
    assert time.monotonic() - begin < 15


def test_unacknowledged_input_stays_within_its_window() -> None:
    received: list[int] = []

    def engine(stream: socket.socket) -> None:
        stream.settimeout(0.4)
        total = 0
        try:
            while data := stream.recv(65536):
                total += len(data)
        except TimeoutError:
            pass
        received.append(total)
        stream.sendall(muxed(1, MARK) + muxed(2, END))

    result = pumped(engine, stdin=StdinFeed(b"x" * (10 * WINDOW_BYTES)))
    assert result.ending == "ended"
    assert WINDOW_BYTES <= received[0] < WINDOW_BYTES + 4096


def test_kill_is_sent_as_a_frame_of_its_own_in_the_middle_of_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pump, "RETURN_GRACE_S", 60.0)  # however late this engine reads
    received = bytearray()

    def engine(stream: socket.socket) -> None:
        time.sleep(1)  # the deadline falls while the socket is full of input
        while not received.endswith(b"K\0\0\0\0"):
            received.extend(stream.recv(65536))
        stream.sendall(muxed(1, MARK) + muxed(2, END.replace(b"exit\nexit 3", b"kill\nexit 3")))

    stdin = StdinFeed(b"x" * (10 * WINDOW_BYTES))
    result = pumped(engine, limits=Limits(wall_s=0.2), stdin=stdin)
    assert result.ending == "wall"
    assert result.report is not None
    data = bytes(received).removeprefix(b"start")
    kinds = []
    while data:
        kinds.append(data[:1])
        data = data[5 + int.from_bytes(data[1:5], "big") :]
    assert kinds[-1] == b"K"
    assert set(kinds[:-1]) <= {b"J"}
